"""The command line."""

from experiments.cli.process import main

__all__ = ["main"]
