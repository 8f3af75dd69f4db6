"""The command ``mta`` with Spark: ``run``, ``demo``, and the other commands on what a run has left.

Spark and its libraries are imported only when a command runs that needs them, so that the others
work, and ``mta --help``, where only the core of the package is installed.
"""

from __future__ import annotations

import warnings
from argparse import (
    ArgumentParser,
    BooleanOptionalAction,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mta.bench.command import add_bench
from mta.cli import handles
from mta.cli.commands import CommandLine, at_least_one
from spark_integration.bench import EXPERIMENTS
from spark_integration.cli.job import CHOICES, Job
from stores.errors import StoreAccessDenied

RUN_EXAMPLES = """examples:
  mta run readings.csv --key device --time ts --value watts --window "24 hours"
  mta run logs/ --key-from-file-name --agg "peak=max(value)" --window "1000 events"
  mta run incoming/ --follow --key device --value watts --store redis://localhost:6379/0
  mta run readings.csv --value watts --window "hour=1 hour" --window "day=24 hours"
  mta run --config job.toml        (the keys are the long options: key = "device", agg = [...])
"""


def command_line() -> CommandLine:
    """``mta`` with every command."""
    # PySpark does not fully support pandas 3 yet, and warns at each use.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    line = CommandLine()
    _add_run(line.add(
        "run", _run, help="aggregate files or a running directory stream",
        epilog=RUN_EXAMPLES, formatter_class=RawDescriptionHelpFormatter,
    ))  # fmt: skip
    _add_demo(line.add("demo", _demo, help="run on a generated stream, or on your data"))
    add_bench(line, EXPERIMENTS)
    line.commands["inspect"].add_argument(
        "--limit", metavar="N", type=at_least_one, default=20,
        help="of a run: how many windows, default 20",
    )  # fmt: skip
    line.commands["gc"].add_argument(
        "--grace", metavar="TIME", default="1 hour",
        help="of a run: how long a page must be seen unneeded, default 1 hour",
    )  # fmt: skip
    for name, command in (("inspect", _inspect), ("check", _check), ("gc", _gc)):
        line.commands[name].set_defaults(command=command)
    return line


def _add_run(parser: ArgumentParser) -> None:
    # No defaults here: what is not given may stand in the config file; Job has the defaults.
    parser.add_argument("input", nargs="*", default=None, help="files, or folders of files")
    parser.add_argument("--config", metavar="FILE", help="a TOML file with any of these options")
    columns = parser.add_argument_group("columns")
    columns.add_argument("--format", choices=CHOICES["format"], help="guessed from the names")
    columns.add_argument("--key", metavar="COL", help="one window for each value of this column")
    columns.add_argument("--key-from-file-name", action="store_true", default=None,
                         help="one window for each file")  # fmt: skip
    columns.add_argument("--time", metavar="COL", help="default: timestamp, ts, time, ...")
    columns.add_argument("--time-format", metavar="PATTERN", help="of Spark, as dd/MM/yyyy HH:mm")
    columns.add_argument("--value", metavar="COL", action="append",
                         help="what is aggregated; several by several --value; default: value, "
                         "or the one column of numbers")  # fmt: skip
    columns.add_argument("--keep", metavar="COL", action="append", help="also in the results")
    windows = parser.add_argument_group("windows")
    windows.add_argument("--agg", metavar="NAME=FUNCTION(COL)", action="append",
                         help="max, min, mean, geomean, sum, count, stddev, stddev_pop, first, "
                         "last; default: max and mean of each value")  # fmt: skip
    windows.add_argument("--window", metavar="SIZE", action="append",
                         help="'24 hours' (default), '1000 events'; several as 'day=24 hours'"
                         )  # fmt: skip
    windows.add_argument("--store", metavar="URL", help="default: local disk, in the output "
                         "folder; spark://state puts the pages into the checkpoint")  # fmt: skip
    windows.add_argument("--late", choices=CHOICES["late"],
                         help="rows older than the key's last one stop the run (default), are "
                         "dropped, or come out with a column 'late' that is true")  # fmt: skip
    windows.add_argument("--allowed-lateness", metavar="TIME",
                         help="how much older than the key's newest row a row may be that is not "
                         "late, as '10 minutes'; default: not at all")  # fmt: skip
    windows.add_argument("--corrections", choices=CHOICES["corrections"],
                         help="with --allowed-lateness: each row once (default), or rows that a "
                         "late one changes again, with a column 'corrected' that is true"
                         )  # fmt: skip
    windows.add_argument("--invalid", choices=CHOICES["invalid"],
                         help="rows without key, time or value, or whose time or value cannot be "
                         "read, stop the run (default) or are dropped")  # fmt: skip
    windows.add_argument("--silent", choices=CHOICES["silent"],
                         help="keys whose time window has emptied are kept (default), forgotten "
                         "with their pages, or so with a last row")  # fmt: skip
    windows.add_argument("--watermark", metavar="TIME",
                         help="for --silent: how far rows of different keys may be apart; default "
                         "10 minutes")  # fmt: skip
    output = parser.add_argument_group("output")
    output.add_argument("--output", metavar="DIR", help="default: mta-output")
    output.add_argument("--every", metavar="WHEN",
                        help="results now and then: '100 events' gives the row of each 100th of a "
                        "key, '1 minute' one row for each whole minute once the key has a later "
                        "row; default: a row for each event")  # fmt: skip
    output.add_argument("--results", choices=CHOICES["results"],
                        help="a row for each event, or the last of each key and batch")  # fmt: skip
    output.add_argument("--write", choices=CHOICES["write"],
                        help="format of the results, default parquet")  # fmt: skip
    output.add_argument("--plot", action=BooleanOptionalAction, default=None,
                        help="draw plot.png at the end (default)")  # fmt: skip
    output.add_argument("--overwrite", action="store_true", default=None,
                        help="start afresh: delete what an earlier run left there")  # fmt: skip
    running = parser.add_argument_group("running")
    running.add_argument("--follow", action="store_true", default=None,
                         help="keep reading new files until Ctrl-C")  # fmt: skip
    running.add_argument("--files-per-batch", metavar="N", type=at_least_one,
                         help="default: files of about 500,000 rows together, or all where their "
                         "order needs it")  # fmt: skip
    running.add_argument("--cores", metavar="N", type=at_least_one, help="default: all")
    running.add_argument("--memory", metavar="SIZE", help="of Spark's Java, default 2g")


def _add_demo(parser: ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="PATH", help="a file or folder of your own")
    parser.add_argument("--events", type=at_least_one, default=4_000_000, metavar="N")
    parser.add_argument("--keys", type=at_least_one, default=100, metavar="K")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="DIR")
    for option in ("--key", "--time", "--time-format", "--value", "--window"):
        parser.add_argument(option, help="for data of your own; else guessed")


def _run(given: Namespace) -> None:
    from spark_integration.cli.run import run

    given.input = given.input or None
    run(Job.from_arguments(given))


def _demo(given: Namespace) -> None:
    from spark_integration.cli.demo import demo

    options = {name: getattr(given, name) for name in ("key", "time", "time_format", "window")}
    job = Job(**{name: value for name, value in options.items() if value})
    job = job.replace(value=(given.value,) if given.value else ())
    demo(job, given.data, given.events, given.keys, given.output)


def _inspect(given: Namespace) -> None:
    if given.path.is_file():
        return handles.inspect(given.path, given.store)
    from spark_integration.cli import checkpoints
    from spark_integration.session import local_session

    with _store_of_a_run(given.store):
        return checkpoints.inspect(given.path, given.store, given.limit, local_session())


def _check(given: Namespace) -> int:
    if given.path.is_file():
        return handles.check(given.path, given.store, given.repair)
    from spark_integration.cli import checkpoints
    from spark_integration.session import local_session

    with _store_of_a_run(given.store):
        return checkpoints.check(given.path, given.store, given.repair, local_session)


def _gc(given: Namespace) -> None:
    if len(given.path) > 1 or given.path[0].is_file():
        return handles.collect(given.path, given.store, given.delete)
    from spark_integration.cli import checkpoints
    from spark_integration.session import local_session

    with _store_of_a_run(given.store):
        folder, grace = given.path[0], given.grace
        return checkpoints.collect(folder, given.store, given.delete, grace, local_session)


@contextmanager
def _store_of_a_run(given: str | None) -> Iterator[None]:
    """Say, where a run's store refuses access, that the run's note has no password."""
    try:
        yield
    except StoreAccessDenied as error:
        if given is not None:
            raise
        hint = "a run's note has no passwords: give the store's whole address with --store"
        raise StoreAccessDenied(f"{error}; {hint}") from error
