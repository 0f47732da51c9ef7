"""Attention Residuals: the quantities that are bounded, and what bounds them."""
