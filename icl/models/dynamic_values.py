"""Values that depend on the query, in both forms of Dynamic Value Attention; derivations in `theory.dva.collapse`.

Shapes as in `icl.models.attention.attend`; gates are q^R (batch, H, T, width) and k^R (batch, H / group, T, width).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from icl.models.frame import for_queries
from theory.plans.plan import Dynamic


def revised(attend: Callable[[Tensor], Tensor], value: Tensor, query_gate: Tensor, key_gate: Tensor) -> Tensor:
    """Return sum_j s_ij (v_j + qR_i * kR_j), Eqns. (6) to (8), by attention to [v ; kR] and a gate.

    attend: values of any width -> what the queries get of them
    """
    mean_value, mean_gate = attend(torch.cat([value, key_gate], dim=-1)).chunk(2, dim=-1)
    return mean_value + query_gate * mean_gate


def initial(shares: Tensor, query_gate: Tensor, value: Tensor, key_gate: Tensor) -> Tensor:
    """Return sum_j s_ij <qR_i, v_j> kR_j: Eqns. (3) to (5), whose matrix qR_i^T kR_j acts on v_j.

    shares (batch, H, Q, S), with as many gates of queries; value and key_gate (batch, H / group, S, width).
    """
    value, key_gate = (for_queries(x, shares.shape[1]) for x in (value, key_gate))
    return (shares * (query_gate @ value.mT)) @ key_gate


def naive(form: Dynamic, shares: Tensor, query_gate: Tensor, value: Tensor, key_gate: Tensor) -> Tensor:
    """Return either form as the paper has it, with every pair's value made.

    These are (batch, H, Q, S, width), or matrices of that width.  Shapes as for `initial`.  The forms above must equal
    it, and what they save is measured against it.
    """
    value, key_gate = (for_queries(x, shares.shape[1]) for x in (value, key_gate))
    query, key, value = query_gate[:, :, :, None], key_gate[:, :, None], value[:, :, None]
    if form == "revised":
        pairs = value + query * key
    else:
        relation = query[..., None] * key[..., None, :]
        pairs = (value[..., None, :] @ relation).squeeze(-2)
    return (shares[..., None, :] @ pairs).squeeze(-2)
