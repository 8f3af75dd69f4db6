"""The command line ``mta``: run windows over files, inspect them, see a demonstration.

- ``commands``: what Spark adds to the commands of ``mta.cli``
- ``job``, ``expressions``: what ``mta run`` is asked to do
- ``sources``, ``readers``, ``rows``, ``stream``: the input's files and columns, what is in one
  file, its rows, and the stream of them
- ``run``, ``progress``, ``plot``: rows in, results and a picture out
- ``checkpoints``: inspect, check and sweep what a run has left
- ``demo``, ``generator``: a demonstration, and the stream that it generates
- ``failures``: Spark's failures in few words
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (``mta.cli.commands.CommandLine.run``)."""
    from spark_integration.cli.commands import command_line

    return command_line().run(arguments)
