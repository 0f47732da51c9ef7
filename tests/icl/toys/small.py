"""Weights at a generic point, for toys of any kind."""

import torch


def randomised(toys, size=1.0, seed=1):
    """Every weight that a toy has is drawn; those that its mask leaves out stay zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in toys.named_parameters():
            drawn = size * torch.randn(p.shape, generator=generator, dtype=p.dtype)
            p.copy_(drawn * toys.get_buffer(f"mask_{name}"))
    return toys
