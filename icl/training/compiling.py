"""torch.compile for many models in one process: what was compiled for a shape serves every later model of that shape.

torch keeps what it compiles with the function's code, and gives up after eight versions of one function.  A campaign
trains more shapes than eight, so that limit is raised; nothing that was compiled is thrown away between trainings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

VERSIONS = 1024  # of one function: shapes of models, each to train and to evaluate
BACKEND: str | Callable[..., Any] = "inductor"

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, *, dynamic: bool | None = False) -> Function:
    """Return a function by torch.compile, which compiles it once per shape of its arguments and of their weights.

    Args:
        function: What is compiled when it is first called, and again for every other shape.
        dynamic: As torch.compile takes it; by default every size is a constant.
    """
    raise_limits()
    return cast(Function, torch.compile(function, dynamic=dynamic, backend=BACKEND))


def raise_limits() -> None:
    """Let torch compile VERSIONS versions of a function before it gives up."""
    limits = torch._dynamo.config
    limits.recompile_limit = max(limits.recompile_limit, VERSIONS)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, 4 * VERSIONS)
