"""Kernels by the operators that are called, against PyTorch's own choice and its profiler."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from icl.models.attention import has_kernel
from icl.probes.kernels import SOFTMAX, attention_kernels


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("value_width", [4, 8])
def test_the_kernel_that_ran_is_the_one_that_the_profiler_saw(value_width, dropout):
    query, value = torch.randn(1, 2, 5, 4, requires_grad=True), torch.randn(1, 2, 5, value_width)

    def run():
        scaled_dot_product_attention(query, query, value, is_causal=True, dropout_p=dropout).sum().backward()

    found = attention_kernels(run)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        run()
    names = {event.key for event in seen.key_averages()}
    assert ("aten::_scaled_dot_product_flash_attention_for_cpu" in names) == ("flash" in found)
    assert ("aten::_scaled_dot_product_attention_math" in names) == (SOFTMAX in found)
    fused = has_kernel(query, query, value, None, dropout, causal=True)
    assert found == (["flash"] if fused else [SOFTMAX])


def test_what_does_not_attend_has_none():
    assert attention_kernels(lambda: torch.ones(3, 3) @ torch.ones(3, 3)) == []
    assert attention_kernels(lambda: torch.ones(3, 3).softmax(-1)) == [SOFTMAX]
