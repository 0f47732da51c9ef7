"""Dynamic values made pair by pair and collapsed: memory and time."""
