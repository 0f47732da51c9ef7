"""The most memory at a time, of tensors that come and go."""

import torch

from icl.probes.peak import peak_bytes


def test_what_is_let_go_is_not_counted_on():
    def run():
        x = torch.zeros(1000)
        for _ in range(5):
            x = x + 1  # the old one is there until the new one is

    assert peak_bytes(run) == 8000


def test_views_and_what_goes_in_are_no_new_memory():
    given = torch.ones(100)

    def run():
        given.view(10, 10).t().add_(1)
        given[:50].expand(3, 50)

    assert peak_bytes(run) == 0


def test_gradients_count():
    given = torch.ones(100, requires_grad=True)

    def run():
        given.square().sum().backward()

    found = peak_bytes(run)
    assert 4 * 200 <= found <= 4 * 310
    assert given.grad is not None
    assert peak_bytes(lambda: None) == 0
