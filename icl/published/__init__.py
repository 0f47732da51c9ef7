"""Published weights, read into a decoder, and decoders written in formats that other libraries read."""
