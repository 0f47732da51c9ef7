"""Dynamic Value Attention."""
