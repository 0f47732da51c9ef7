"""Hyper-Connections: claims and experiments."""
