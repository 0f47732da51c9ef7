"""The command line."""

from experiments.cli.parser import main

__all__ = ["main"]
