"""Softmax skip heads against any model of squeezed tokens."""
