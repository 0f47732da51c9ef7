"""The linear-attention toy, which has no norms: how large it gets, which norms keep it bounded, what its depth weights
reach."""
