"""Magnitudes and gradients by depth of trained decoders."""
