"""The command ``mta`` with Spark: ``run``, ``demo``, ``migrate``, and other commands for runs.

Spark and its libraries are imported only when a command needs them. So ``mta --help`` and the other
commands work if only the core of the package is installed.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from importlib import import_module
from pathlib import Path
from typing import Any

from mta.cli import serving, snapshots
from mta.cli.commands import Command, CommandLine
from mta.cli.console import at_least_one
from spark_integration.cli.job import INPUT, Job, add_options, read_job
from spark_integration.errors import InvalidRequest
from stores import ping_store
from stores.address import PASSWORD
from stores.errors import StoreAccessDenied

RUN_EXAMPLES = """examples:
  mta run readings.csv --key device --time ts --value watts --window "24 hours"
  mta run logs/ --key-from-file-name --agg "peak=value:max" --window "1000 events"
  mta run incoming/ --follow --key device --value watts --store redis://localhost:6379/0
  mta run --sql "SELECT *, max(watts) OVER (PARTITION BY device ORDER BY ts ROWS 9 PRECEDING)
      FROM 'readings/*.csv'"
  mta run --config job.toml        (the keys are the long options: key = "device", agg = [...])
"""


def add_commands(line: CommandLine) -> None:
    """Add the commands that need Spark, and let others also work for runs."""
    # PySpark does not fully support pandas 3 yet, and warns at each use.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    run = line.add(
        "run", _run, help="aggregate files, or a folder that receives new files",
        epilog=RUN_EXAMPLES, formatter_class=RawDescriptionHelpFormatter,
    )  # fmt: skip
    run.add_argument("input", nargs="*", help="files, or folders of files")
    run.add_argument(
        "--config", metavar="FILE", help="a TOML file with any of these options; default: none"
    )
    add_options(run)
    _add_demo(line.add("demo", _demo, help="run on a generated stream, or on your data"))
    _add_migrate(line.add(
        "migrate", _migrate, help="copy a stopped query's checkpoint, with other buckets or "
        "another store",
    ))  # fmt: skip
    _add_erase(line.add("erase", _erase, help="erase keys from a stopped query, and their pages"))
    line.commands["gc"].add_argument(
        "--grace", metavar="TIME", default="1 hour",
        help="for a run: how long a page must be unneeded before it is deleted; default: 1 hour",
    )  # fmt: skip
    for name, of_runs_alone in (("inspect", ""), ("check", ""), ("gc", "grace")):
        line.commands[name].set_defaults(command=_of_a_run(name, of_runs_alone))
    line.commands["serve"].set_defaults(command=_serve)


def _serve(published: str | None, store: str | None, **options: Any) -> None:
    """Serve what is published under a name, or by the run in an output folder."""
    job = None
    if published is not None:
        job = read_job(Path(published)) or read_job(Path(published, "run"))
    if job is None:
        serving.serve(published, store, **options)
        return
    if not job.get("publish"):
        raise InvalidRequest(
            f"the run in {published} publishes nothing: run it again with a name, such as "
            "'mta run --publish features'"
        )
    serving.serve(str(job["publish"]), store or str(job["store"]), **options)


def _add_demo(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=Path, metavar="PATH",
        help="a file or folder of your own; default: generate a stream")  # fmt: skip
    add("--events", type=at_least_one, default=4_000_000, metavar="N",
        help="how many events to generate; default: 4,000,000")  # fmt: skip
    add("--keys", type=at_least_one, default=100, metavar="N",
        help="how many keys to generate; default: 100")  # fmt: skip
    add("--output", type=Path, default=Path("demo-output"), metavar="DIR",
        help="the output folder; default: demo-output")  # fmt: skip
    add_options(
        parser.add_argument_group("for --data", "key, time and value are guessed from the names"),
        INPUT,
    )


def _add_migrate(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path,
        help="the checkpoint folder of a stopped query; it is not changed")  # fmt: skip
    add("target", type=Path, help="a new folder for the checkpoint to continue from")
    add("--store", metavar="URL", required=True, help="the store of the pages")
    add("--to", metavar="URL", help="the store for the pages; default: the same")
    add("--buckets", metavar="N", type=at_least_one,
        help="how many buckets the query will have; default: unchanged")  # fmt: skip
    add("--time-limit", metavar="TIME", default="30 minutes",
        help="how long Spark may take to write the states; default: 30 minutes")  # fmt: skip


def _add_erase(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path,
        help="the checkpoint folder of a stopped query, or the output folder of a run")  # fmt: skip
    add("--key", required=True, action="append",
        help="a key; repeat it for more keys, and separate several columns with commas"
        )  # fmt: skip
    add("--store", metavar="URL",
        help="the store of the pages; default: that of the run, without credentials")  # fmt: skip
    add("--time-limit", metavar="TIME", default="30 minutes",
        help="how long Spark may take to write the states; default: 30 minutes")  # fmt: skip
    add("--json", action="store_true", dest="as_json",
        help="print one JSON document; default: lines of text")  # fmt: skip


def _with_spark(module: str, name: str) -> Command:
    """Return a command that needs Spark. Raises MissingDependency if libraries conflict."""
    import_module("spark_integration.versions")  # first, because its error names the conflict
    command: Command = getattr(import_module(f"spark_integration.cli.{module}"), name)
    return command


def _migrate(**given: Any) -> None:
    _with_spark("checkpoints", "migrate")(**given)


def _erase(**given: Any) -> None:
    _with_spark("checkpoints", "erase")(**given)


def _run(**given: Any) -> None:
    job = Job.from_options(given)
    if job.store is not None and not job.store.startswith("spark:"):
        ping_store(job.store, write=True)  # before PySpark is imported, which takes seconds
    _with_spark("run", "run")(job)


def _demo(data: Path | None, events: int, keys: int, output: Path, **given: Any) -> None:
    job = Job.from_options({**given, "input": [str(data or output / "events")]})
    _with_spark("demo", "demo")(job, data, events, keys, output)


def _is_of_a_run(path: Path) -> bool:
    """Return whether a path is a folder, or a checkpoint that an erasure is replacing."""
    return path.is_dir() or (path.name != "" and path.with_name(f".{path.name}.new").is_dir())


def _of_a_run(name: str, of_runs_alone: str) -> Command:
    """Return a command that also works for runs; for files it is unchanged."""

    def command(path: Path | list[Path], store: str | None, **options: Any) -> int | None:
        paths = path if isinstance(path, list) else [path]
        if len(paths) != 1 or not _is_of_a_run(paths[0]) or options.get("windows"):
            options.pop(of_runs_alone, None)
            of_snapshots: Command = getattr(snapshots, name)
            return of_snapshots(path, store, **options)
        if options.pop("declaration", None) is not None:
            raise InvalidRequest("gc takes the folder of a run, or --config of a service, not both")
        options.pop("windows", None)
        of_runs = _with_spark("checkpoints", name)
        try:
            return of_runs(paths[0], store, **options)
        except StoreAccessDenied as error:
            if store is not None:
                raise
            hint = (
                "a run records no passwords: give the store's full address with --store, or "
                f"set {PASSWORD}"
            )
            raise StoreAccessDenied(f"{error}; {hint}") from error

    return command
