"""ResFormer and SVFormer: claims and experiments."""
