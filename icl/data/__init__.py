"""Real text as tokens: sources, tokenizers, shards on disk and windows over them."""
