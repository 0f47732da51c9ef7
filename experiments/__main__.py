"""`python -m experiments` is `crosslayer`."""

import sys

from experiments.cli import main

sys.exit(main())
