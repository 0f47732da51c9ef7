"""What decoding costs under each variant: bytes kept, bytes read, and time."""
