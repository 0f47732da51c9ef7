"""Claims and experiments that need several papers."""
