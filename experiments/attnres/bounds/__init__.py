"""The size of reads over depth: predicted, bounded and measured, and how sharp the bounds are."""
