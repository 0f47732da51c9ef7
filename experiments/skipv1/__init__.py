"""SkipV1Former: its claims and experiments."""
