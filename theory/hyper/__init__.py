"""Hyper-connections: several residual streams, mixed at every sublayer."""
