"""``python -m mta`` is the command ``mta`` without the commands of Spark."""

import sys

from mta.cli.commands import CommandLine

sys.exit(CommandLine().run())
