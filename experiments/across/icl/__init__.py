"""In-context regression at full size over the embedding width."""
