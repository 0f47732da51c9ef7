"""Hypothesis: no deadlines (first calls import torch), and the same examples in every CI run."""

import os

from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
