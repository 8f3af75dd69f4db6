"""The command ``mta``: it takes options, and returns an exit code."""

from __future__ import annotations

import sys
import traceback
from argparse import (
    SUPPRESS,
    Action,
    ArgumentParser,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from platform import platform, python_version
from typing import Any

from mta import __version__
from mta.cli import device, serving, snapshots
from mta.cli.console import MEANINGS, Exit, as_options, at_least_one, exit_code, printing, say
from mta.kernels import native
from stores import installed_stores
from stores.errors import MissingDependency, pip_install

#: The extra of the package that installs each optional library.
EXTRAS = {
    **dict.fromkeys(("pyspark", "pyarrow", "pandas", "google"), "spark"),
    **dict.fromkeys(("starlette", "uvicorn", "orjson", "prometheus_client"), "serve"),
    **dict.fromkeys(("sqlglot", "duckdb"), "sql"),
    "paho": "device",
}

#: A command takes its options as keywords, and returns an exit code; None means 0.
Command = Callable[..., int | None]
_PATH = "a file with a snapshot of Window, SharedWindows or KeyedWindows; with Spark, "


class CommandLine:
    """``mta`` with the commands for snapshots in files; other packages may add commands."""

    def __init__(self) -> None:
        self.parser = ArgumentParser(
            prog="mta",
            description="Exact sliding windows over streams, with their pages in a store.",
            epilog=_exit_codes(),
            formatter_class=RawDescriptionHelpFormatter,
        )
        add = self.parser.add_argument
        add("--version", action=_Version, nargs=0, default=SUPPRESS,
            help="print the installed version, Python and libraries")  # fmt: skip
        add("--print-completion", action=_Completion, default=SUPPRESS, metavar="SHELL",
            help="print the completion of commands and options for bash, zsh or tcsh"
            )  # fmt: skip
        self._commands = self.parser.add_subparsers(required=True, metavar="command", dest="name")
        #: The commands by name; other packages may add options, or replace the function.
        self.commands: dict[str, ArgumentParser] = {}
        self._add_inspect()
        self._add_check()
        self._add_gc()
        self._add_unpublish()
        serve = self.add("serve", serving.serve, help="serve published windows over HTTP")
        serving.add_options(serve)
        device.add_options(self.add("device", device.device, help="run windows on a device"))

    def _add_inspect(self) -> None:
        parser = self.add(
            "inspect", snapshots.inspect, help="show the windows of a run or snapshot"
        )
        add = parser.add_argument
        add("path", type=Path, help=f"{_PATH}a run's output folder or checkpoint")
        add("--limit", metavar="N", type=at_least_one, default=20,
            help="how many keys to show; default: 20")  # fmt: skip
        add("--key", help="show only this key; separate several columns with commas; default: all")
        _add_common(parser)

    def _add_check(self) -> None:
        parser = self.add("check", snapshots.check, help="verify every page of windows")
        parser.add_argument("path", type=Path, help=f"{_PATH}the output folder of an ended run")
        _add_common(parser)

    def _add_gc(self) -> None:
        parser = self.add("gc", snapshots.gc, help="find and delete pages that no window needs")
        add = parser.add_argument
        add("path", type=Path, nargs="*",
            help="files with all snapshots of some windows; with Spark, a run's output folder"
            )  # fmt: skip
        _add_common(parser)
        add("--name", dest="windows", metavar="NAME",
            help="instead of files: all pages of the windows with this name, or of the query with "
            "this id")  # fmt: skip
        add("--config", dest="declaration", metavar="FILE", type=Path,
            help="instead of files: those of the declared windows of mta serve --config, which may "
            "be running")  # fmt: skip
        add("--delete", action="store_true", help="delete the pages; default: only list them")
        add("--compact", action="store_true",
            help="also rewrite objects of S3 and the like that are small or mostly deleted; "
            "default: no")  # fmt: skip

    def _add_unpublish(self) -> None:
        parser = self.add(
            "unpublish", snapshots.unpublish, help="delete what is published under a name"
        )
        parser.add_argument("published", metavar="NAME",
                            help="the name, as in publish=NAME; the windows remain")  # fmt: skip
        _add_common(parser)

    def add(self, name: str, command: Command, **how: Any) -> ArgumentParser:
        """Add a command and return its parser; ``how`` are arguments of ``ArgumentParser``."""
        parser: ArgumentParser = self._commands.add_parser(name, **how)
        parser.set_defaults(command=command)
        amount = parser.add_mutually_exclusive_group()
        amount.add_argument("-q", "--quiet", action="store_true", help="print errors only")
        amount.add_argument("-v", "--verbose", action="store_true",
                            help="also print what stores do, and the traceback of an error"
                            )  # fmt: skip
        self.commands[name] = parser
        return parser

    def options(self, command: str) -> list[str]:
        """Return the names of a command's long options, as arguments in Python."""
        options = (o for action in self.commands[command]._actions for o in action.option_strings)
        return [o[2:].replace("-", "_") for o in options if o.startswith("--")]

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command of these arguments; return its exit code (``mta.cli.console``)."""
        given = vars(self.parser.parse_args(arguments))
        name: str = given.pop("name")
        command: Command = given.pop("command")
        verbose = given.pop("verbose")
        how = {"quiet": given.pop("quiet"), "as_json": given.pop("as_json", False)}
        try:
            with printing(verbose=verbose, **how):
                return command(**given) or Exit.DONE
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        except Exception as error:
            code, text = exit_code(error), as_options(str(error), self.options(name))
            if isinstance(error, ModuleNotFoundError) and code is None:
                extra = EXTRAS.get((error.name or "").partition(".")[0])
                code = None if extra is None else Exit.USAGE
                text = f"'mta {name}' needs {error.name}: {pip_install(extra or '')}"
            if code is None:
                raise
            if verbose:
                traceback.print_exc()
            sys.stderr.write(f"mta: {text}\n")
            return code


def command_line() -> CommandLine:
    """Return the command line with the commands of all installed packages."""
    line = CommandLine()
    for entry in entry_points(group="mta.commands"):
        entry.load()(line)
    return line


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", dest="as_json",
                        help="print one JSON document; default: lines of text")  # fmt: skip
    parser.add_argument("--store", metavar="URL",
                        help="the store of the pages; default: that of the run, without credentials"
                        )  # fmt: skip


def _exit_codes() -> str:
    codes = (f"  {code:3} {meaning}" for code, meaning in MEANINGS.items())
    return "\n".join(("exit codes:", *codes))


def installed(name: str) -> str:
    """Return the version of a distribution without importing it; "" if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def versions() -> str:
    """Return the versions that results depend on, and the installed stores, one per line."""
    spark = installed("pyspark")
    facts = {
        "mta": __version__,
        "python": f"{python_version()} on {platform()}",
        "numpy": installed("numpy"),
        "kernels": native.in_use(),
        "stores": ", ".join(installed_stores()),
        "spark": spark or f"none: {pip_install('spark')}",
    }
    return "\n".join(f"{name:9} {value}" for name, value in facts.items())


class _Version(Action):
    """Prints the versions and exits; only then looks them up."""

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        say(versions())
        parser.exit()


class _Completion(Action):
    """Prints a completion script for a shell and exits; only then imports shtab."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option: str | None = None
    ) -> None:
        try:
            import shtab
        except ModuleNotFoundError as error:
            missing = MissingDependency(f"{option} needs shtab: {pip_install('completion')}")
            sys.stderr.write(f"mta: {missing}\n")
            raise SystemExit(exit_code(missing)) from error
        if values not in shtab.SUPPORTED_SHELLS:
            parser.error(f"{option}: shtab knows {', '.join(shtab.SUPPORTED_SHELLS)}")
        for each in _actions(parser):
            if each.type is Path or each.dest == "input" or each.metavar in ("FILE", "DIR"):
                each.complete = shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, values) + "\n")
        parser.exit()


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    """Yield the options and arguments of a parser and its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, _SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
