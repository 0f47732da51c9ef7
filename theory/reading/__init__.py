"""Theorems on reading layer 1 in a trained model: refitted readers, tables by token, costs in nats, and one law."""
