"""The command line ``mta``: run windows over files, inspect them, see a demonstration."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (``mta.cli.commands.CommandLine.run``)."""
    from spark_integration.cli.commands import command_line

    return command_line().run(arguments)
