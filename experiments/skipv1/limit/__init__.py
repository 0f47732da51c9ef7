"""The share of the signal that is explained as the context grows."""
