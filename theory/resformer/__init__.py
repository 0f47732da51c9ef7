"""ResFormer and SVFormer."""
