"""The command line ``mta``: run windows over files, inspect them, see a demonstration."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from stores.errors import WindowStoreError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code, 2 for what the user can correct.

    ``mta check`` returns 1 where a page is damaged and was not repaired.
    """
    from mta.cli.console import as_options
    from spark_integration.cli.parser import parse

    command = parse(arguments)
    try:
        return command() or 0
    except WindowStoreError as error:
        sys.stderr.write(f"mta: {as_options(str(error))}\n")
        return 2
    except KeyboardInterrupt:
        return 130
