"""The options of ``mta`` and of its commands."""

from __future__ import annotations

import warnings
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

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


def parse(arguments: Sequence[str] | None = None) -> Callable[[], int | None]:
    """The command that the arguments ask for, ready to be called; it returns the exit code."""
    parser = ArgumentParser(
        prog="mta", description="Exact sliding windows over streams, their pages in a store."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_run(commands.add_parser(
        "run",
        help="aggregate files or a running directory stream",
        epilog=RUN_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    ))  # fmt: skip
    _add_inspect(commands.add_parser("inspect", help="show the windows of a run or of a handle"))
    _add_check(commands.add_parser("check", help="verify every page of windows"))
    _add_gc(commands.add_parser("gc", help="find and delete pages that no window needs"))
    _add_demo(commands.add_parser("demo", help="run on a generated stream, or on your data"))
    _add_bench(commands.add_parser("bench", help="measure beside peers"))
    given = parser.parse_args(arguments)
    command: Callable[[Namespace], int | None] = given.command
    del given.command
    return partial(command, given)


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
    running.add_argument("--files-per-batch", metavar="N", type=_at_least_one,
                         help="default: files of about 500,000 rows together, or all where their "
                         "order needs it")  # fmt: skip
    running.add_argument("--cores", metavar="N", type=_at_least_one, help="default: all")
    running.add_argument("--memory", metavar="SIZE", help="of Spark's Java, default 2g")
    parser.set_defaults(command=_run)


def _add_inspect(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="output folder of a run, a Spark checkpoint, or "
                        "a file with a handle of Window or SharedWindows")  # fmt: skip
    parser.add_argument("--store", metavar="URL", help="default: the run's, without credentials")
    parser.add_argument(
        "--limit", metavar="N", type=_at_least_one, default=20, help="how many windows, default 20"
    )
    parser.set_defaults(command=_inspect)


def _add_check(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="output folder of 'mta run', which is not running, "
                        "or a file with a handle")  # fmt: skip
    parser.add_argument("--store", metavar="URL", help="default: the run's, without credentials")
    parser.add_argument("--repair", action="store_true",
                        help="rebuild damaged inner pages of a run from the level below"
                        )  # fmt: skip
    parser.set_defaults(command=_check)


def _add_gc(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=Path, nargs="+", help="output folder of 'mta run', or all "
                        "files with handles of some windows")  # fmt: skip
    parser.add_argument("--store", metavar="URL", help="default: the run's, without credentials")
    parser.add_argument("--delete", action="store_true",
                        help="delete them; without it nothing is changed in the store")  # fmt: skip
    parser.add_argument("--grace", metavar="TIME", default="1 hour",
                        help="how long a page of a run must be seen unneeded; default 1 hour"
                        )  # fmt: skip
    parser.set_defaults(command=_gc)


def _add_demo(parser: ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="PATH", help="a file or folder of your own")
    parser.add_argument("--events", type=_at_least_one, default=4_000_000, metavar="N")
    parser.add_argument("--keys", type=_at_least_one, default=100, metavar="K")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="DIR")
    for option in ("--key", "--time", "--time-format", "--value", "--window"):
        parser.add_argument(option, help="for data of your own; else guessed")
    parser.set_defaults(command=_demo)


def _add_bench(parser: ArgumentParser) -> None:
    families = [name.partition("_")[0] for name in EXPERIMENTS]
    names = {*families, *EXPERIMENTS}

    def experiment(text: str) -> str:
        if text not in names:
            raise ArgumentTypeError(f"there is no {text!r}; --help lists what there is")
        return text

    parser.add_argument(
        "experiment",
        nargs="*",
        type=experiment,
        metavar="NAME",
        help=f"an experiment or the first part of names; all of {', '.join(EXPERIMENTS)}",
    )
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--quick", action="store_true", help="every figure within 10 minutes")
    how_much.add_argument("--size", type=_share, default=1.0, help="share of the full events")
    parser.add_argument("--output", default="bench-output", metavar="FOLDER", help="%(default)s")
    parser.add_argument("--fresh", action="store_true", help="measure again what is finished")
    parser.set_defaults(command=_bench)


def _share(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size <= 1:
        raise ArgumentTypeError(f"a share is above 0 and at most 1, not {text!r}")
    return size


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"give a whole number of at least 1, not {text!r}")
    return int(text)


def _quiet() -> None:
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")


def _run(given: Namespace) -> None:
    from spark_integration.cli.run import run

    _quiet()
    given.input = given.input or None
    run(Job.from_arguments(given))


@contextmanager
def _store_of_a_run(given: str | None) -> Iterator[None]:
    """Tell who is refused by a run's store that its note has the address without a password."""
    try:
        yield
    except StoreAccessDenied as error:
        if given is not None:
            raise
        hint = "a run's note has no passwords: give the store's whole address with --store"
        raise StoreAccessDenied(f"{error}; {hint}") from error


def _inspect(given: Namespace) -> None:
    from spark_integration.cli import handle_files
    from spark_integration.cli.inspection import show
    from spark_integration.session import local_session

    _quiet()
    if given.path.is_file():
        handle_files.show(given.path, given.store)
    else:
        with _store_of_a_run(given.store):
            show(given.path, given.store, given.limit, local_session())


def _check(given: Namespace) -> int:
    from spark_integration.cli import handle_files
    from spark_integration.cli.checking import check
    from spark_integration.session import local_session

    _quiet()
    if given.path.is_file():
        return handle_files.check(given.path, given.store, given.repair)
    with _store_of_a_run(given.store):
        return check(given.path, given.store, given.repair, local_session)


def _gc(given: Namespace) -> None:
    from spark_integration.cli import handle_files
    from spark_integration.cli.sweeping import collect
    from spark_integration.session import local_session

    _quiet()
    if len(given.path) > 1 or given.path[0].is_file():
        handle_files.collect(given.path, given.store, given.delete)
    else:
        with _store_of_a_run(given.store):
            collect(given.path[0], given.store, given.delete, given.grace, local_session)


def _bench(given: Namespace) -> int:
    from mta.bench.frame.running import bench

    _quiet()
    size = None if given.quick else given.size
    return bench(given.experiment, size, given.output, given.fresh, EXPERIMENTS)


def _demo(given: Namespace) -> None:
    from spark_integration.cli.demo import demo

    _quiet()
    options = {name: getattr(given, name) for name in ("key", "time", "time_format", "window")}
    job = Job(**{name: value for name, value in options.items() if value})
    job = job.replace(value=(given.value,) if given.value else ())
    demo(job, given.data, given.events, given.keys, given.output)
