"""Crosslayer's testbed: tasks, models and training in PyTorch.  What happens, measured."""
