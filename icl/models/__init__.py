"""Models of the testbed."""
