"""Ask which heads of a trained model can read layer 1's values: advice against fixed and random choices."""
