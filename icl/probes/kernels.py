"""The kernels on which attention ran, by the operators that PyTorch calls while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

FUSED = ("flash", "efficient", "cudnn")  # of aten::_scaled_dot_product_NAME_attention, with more behind it on a CPU
SOFTMAX = "softmax"  # an operator of its own: the weights of pairs were made


def attention_kernels(run: Callable[[], object]) -> list[str]:
    """Return the names of FUSED and SOFTMAX that `run` used, in this order; none where it did not attend."""
    with _Seen() as seen:
        run()
    fused = [name for name in FUSED if any(f"_scaled_dot_product_{name}_attention" in called for called in seen.names)]
    return fused + [SOFTMAX] * any("softmax" in called for called in seen.names)


class _Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.name())
        return func(*args, **(kwargs or {}))
