"""The command line ``mta``: run windows over files, inspect the windows, see a demonstration.

- ``commands``: the commands that need Spark, in addition to those of ``mta.cli``
- ``job``, ``expressions``: the options of ``mta run``
- ``sources``, ``readers``, ``rows``, ``stream``: the input's files and columns, the content of a
  file, its rows, and the stream of rows
- ``run``, ``progress``, ``plot``: from rows to results and a plot; short texts for Spark's failures
- ``checkpoints``: inspect, check and clean up what a run has written
- ``demo``: a demonstration, and the stream that it generates
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (``mta.cli.commands.CommandLine.run``)."""
    from spark_integration.cli.commands import command_line

    return command_line().run(arguments)
