"""The linear-attention toy, which has no norms: its size, what bounds it, and what depth weights reach."""
