"""How large what is read gets with depth: predicted, bounded and measured, and how sharp the bounds are."""
