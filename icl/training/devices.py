"""Peak speeds of devices, to state a run's speed as a share of them."""

from __future__ import annotations

import re

import torch

# Dense bf16 matrix products, FLOP/s, by vendors' datasheets.
PEAK_BF16 = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "A6000": 155e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the FLOP/s of dense products; None where it is not known (a CPU, another GPU, fp32)."""
    if device.type != "cuda" or precision != "bf16":
        return None
    title = torch.cuda.get_device_name(device)
    return next((peak for known, peak in PEAK_BF16.items() if re.search(rf"\b{known}\b", title)), None)
