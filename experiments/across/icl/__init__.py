"""In-context regression in trained decoders over the embedding width."""
