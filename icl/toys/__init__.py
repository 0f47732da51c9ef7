"""Toys in PyTorch: as the papers write them, and hundreds of them as one model."""
