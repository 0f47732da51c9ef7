"""The toy with nothing assumed of its first layer."""
