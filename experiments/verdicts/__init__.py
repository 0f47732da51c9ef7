"""Checks, intervals and orders: what turns numbers into a verdict."""
