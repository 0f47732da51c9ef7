"""What heads are for: losses by number of heads, and how many a trained model can do without."""
