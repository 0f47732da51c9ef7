"""Training loops of the testbed."""
