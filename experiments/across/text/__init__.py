"""Compute-optimal language models of several sizes: what each variant is worth in parameters."""
