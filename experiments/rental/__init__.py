"""One call on a rented GPU: what it runs in which minutes, what that takes, and the archive that carries it home."""
