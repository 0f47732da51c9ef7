"""When SVFormer falls behind the vanilla Transformer: by context length, learning rate, warm-up and depth."""
