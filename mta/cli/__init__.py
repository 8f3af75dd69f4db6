"""The command line ``mta``: the commands that need no Spark.

Other installed packages add commands by an entry point of the group ``mta.commands``, a function
that takes the ``CommandLine``; ``spark_integration.cli.commands`` is one.

- ``commands``: from options to an exit code
- ``snapshots``: ``inspect``, ``check`` and ``gc`` for snapshots in files
- ``serving``: the options of the server
- ``device``: windows on a device
- ``console``: what the commands print, in which form, and their exit codes
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (``mta.cli.commands.CommandLine.run``)."""
    from mta.cli.commands import command_line

    return command_line().run(arguments)
