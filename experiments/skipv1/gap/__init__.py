"""The loss gap against rank-a compression."""
