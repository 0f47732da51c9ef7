"""Figures: one style, plans, curves."""
