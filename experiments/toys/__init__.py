"""Many toys at once: exact minima, stacked training, and how they are judged."""
