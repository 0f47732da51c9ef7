"""The linear-attention toy, exactly: population losses, their minima, and closed forms for every value map."""
