"""``python -m mta`` is the command ``mta`` without the commands of Spark."""

import sys

from mta.bench.command import add_bench
from mta.cli.commands import CommandLine

line = CommandLine()
add_bench(line)
sys.exit(line.run())
