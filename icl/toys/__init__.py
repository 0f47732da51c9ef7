"""Toys in PyTorch: as the paper writes them, and hundreds of them as one model."""
