"""Designs of the field that no paper here is about: their variants, each with its source."""
