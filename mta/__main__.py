"""``python -m mta`` is the command ``mta``."""

import sys

from mta.cli import main

sys.exit(main())
