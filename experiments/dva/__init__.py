"""Dynamic Value Attention: claims and experiments."""
