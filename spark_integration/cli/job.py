"""The options of ``mta run``, from the command line, a TOML file and defaults."""

from __future__ import annotations

import json
import tomllib
from argparse import BooleanOptionalAction, _ActionsContainer
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from mta.cli.console import at_least_one
from mta.windows.settings import Settings
from spark_integration.errors import CorruptState, InvalidRequest
from spark_integration.options import ASIDE, DECISIVE, OnLate, Options
from stores.address import without_credentials
from stores.local_disk import replace_file

#: The titles of the groups of options in the help, by the first option of each group.
GROUPS = {"format": "columns", "agg": "windows", "output": "output", "follow": "running"}
#: The options that describe the input, and the size of the window.
INPUT = (
    "format", "delimiter", "quote", "encoding", "decimal", "key", "key_from_file_name", "time",
    "time_format", "time_unit", "value", "window",
)  # fmt: skip
#: The options that a checkpoint depends on.
FIXED = (
    "key", "key_from_file_name", "time", "time_unit", "value", "carry", "agg", "window", "sql",
    "ties", "store",
    "emit", "write",
)  # fmt: skip
#: The values of options by default, if others than those of ``sliding_aggregate``: in files, a NaN
#: is a missing value.
DEFAULTS = {"nulls": "skip", "nan": "skip"}


def _option(default: Any, about: str, metavar: str | None = None, *, shown: bool = True) -> Any:
    return field(default=default, repr=shown, metadata={"help": about, "metavar": metavar})


def _window_options() -> list[tuple[str, Any, Any]]:
    """Return the name, type and field of each option of windows that is one of the command line.

    Durations are text here.
    """
    found = list[tuple[str, Any, Any]]()
    for kind in (Settings, Options):
        hints = get_type_hints(kind)
        for each in (each for each in fields(kind) if "help" in each.metadata):
            hint = OnLate if each.name in ASIDE else hints[each.name]
            is_plain = get_origin(hint) is Literal or hint in (bool, int | None)
            default = DEFAULTS.get(each.name, each.default)
            made = field(default=default, metadata=each.metadata)
            found.append((each.name, hint if is_plain else str | None, made))
    return found


#: The options of windows, as ``Settings`` and ``Options`` describe them.
_WindowOptions: Any = make_dataclass("_WindowOptions", _window_options(), frozen=True)
#: Their names.
OF_WINDOWS = tuple(each.name for each in fields(_WindowOptions))


@dataclass(frozen=True)
class Job(_WindowOptions):  # type: ignore[misc]
    """One run: input, columns, aggregations, window, and where the results and pages go.

    The fields are the long options of ``mta run`` and the keys of its ``--config`` file. Those of
    the windows are the options of ``sliding_aggregate``.
    """

    input: tuple[str, ...] = ()

    format: Literal["csv", "json", "parquet"] | None = _option(
        None, "the format of the input; default: guessed from the names"
    )
    delimiter: str = _option(",", "the delimiter of CSV cells, such as ';' or '\\t'", "CHAR")
    quote: str = _option(
        '"', "the quote character of CSV; '' if quotes are ordinary characters", "CHAR"
    )
    encoding: str = _option(
        "utf-8", "the encoding of CSV and JSON, such as latin-1 or cp1252", "NAME"
    )
    decimal: Literal[".", ","] = _option(".", "the decimal mark of numbers in CSV: . or ,", "MARK")
    key: str | None = _option(
        None, "one window for each value of this column; default: one window for all rows", "COL"
    )
    key_from_file_name: bool = _option(False, "one window for each file")
    time: str | None = _option(None, "the time column; default: timestamp, ts, time, ...", "COL")
    time_format: str | None = _option(
        None,
        "the format of times, as a Spark pattern such as dd/MM/yyyy HH:mm; default: ISO 8601",
        "PATTERN",
    )
    time_unit: Literal["s", "ms", "us", "ns"] | None = _option(
        None, "the unit of numeric times since 1970; default: guessed, and reported"
    )
    value: tuple[str, ...] = _option(
        (),
        "a column to aggregate; may be repeated; default: value, or the only column of numbers",
        "COL",
    )
    carry: tuple[str, ...] = _option(
        (), "another column to include in the results; may be repeated", "COL"
    )

    agg: tuple[str, ...] = _option(
        (),
        "max, mean, sum, count, std, quantile(0.9), ... (see docs/catalogue.md); default: max and "
        "mean of each value",
        "NAME=COL:AGG",
    )
    window: str = _option("24 hours", "'24 hours', '1000 events' or 'session 1 hour'", "SIZE")
    sql: str | None = _option(
        None,
        "a SELECT with window functions, instead of --key, --time, --value, --carry, --agg and "
        "--window: SELECT *, max(watts) OVER (PARTITION BY device ORDER BY ts ROWS 9 PRECEDING) "
        "FROM 'readings/*.csv'; default: none",
        "QUERY",
    )
    ties: Literal["rows"] | None = _option(
        None,
        "for --sql: 'rows' if RANGE ... CURRENT ROW leaves out later rows of the same time; "
        "default: such frames are refused",
    )
    store: str | None = _option(
        None,
        "the store for the pages; spark://state puts them into the checkpoint; default: the "
        "output folder",
        "URL",
        shown=False,
    )
    watermark: str = _option(
        "10 minutes", "for --idle: the maximum delay between the rows of different keys", "TIME"
    )

    output: str = _option("mta-output", "where results, pages and the checkpoint go", "DIR")
    emit_every: str | None = _option(
        None,
        "'100 events': each 100th row of a key; '1 minute': one per minute; default: every row",
        "WHEN",
    )
    write: Literal["parquet", "csv"] = _option("parquet", "the format of the results")
    plot: bool = _option(True, "whether to draw plot.png at the end; default: yes")
    plot_keys: int | None = _option(None, "how many keys the plot shows; default: up to 3", "N")
    overwrite: bool = _option(
        False,
        "start over, deleting the files of an earlier run in the output folder; default: continue",
    )

    follow: bool = _option(
        False, "keep reading new files until Ctrl-C; default: stop after the existing files"
    )
    files_per_batch: int | None = _option(
        None,
        "how many files a batch reads; default: about 500,000 rows, or all files to sort them",
        "N",
    )
    cores: int | None = _option(None, "how many cores to use; default: all", "N")
    memory: str = _option("2g", "the memory of Spark's Java", "SIZE")

    @classmethod
    def from_options(cls, given: Mapping[str, Any]) -> Self:
        """Return the job: the given options override the ``--config`` file and the defaults."""
        options = {name: value for name, value in given.items() if value not in (None, [])}
        if "config" in options:
            options = {**read_config(Path(options.pop("config"))), **options}
        job = cls(**{name: _value(name, value) for name, value in options.items()})
        if not job.input and not job.sql:
            raise InvalidRequest("no input: give a file or a folder, or 'input' in the config file")
        if job.key and job.key_from_file_name:
            raise InvalidRequest("give either --key or --key-from-file-name, not both")
        return job

    @property
    def folder(self) -> Path:
        return Path(self.output)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def result_folder(self) -> Path:
        return self.folder / "results"

    @property
    def store_url(self) -> str:
        """Return the URL of the pages' store, by default on local disk in the output folder."""
        return self.store or f"file://{(self.folder / 'pages').absolute()}"

    def described(self) -> dict[str, Any]:
        return asdict(self) | {"store": without_credentials(self.store_url)}

    def save(self) -> None:
        """Save the job in its folder, for ``mta inspect`` and the next run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / "job.json", json.dumps(self.described(), indent=1) + "\n")

    def differences(
        self, earlier: Mapping[str, Any], window: Callable[[Any], Any] | None = None
    ) -> list[str]:
        """Return the settings that a checkpoint depends on and that differ from ``earlier``.

        ``window`` returns the window that a text means, because ``24h`` and ``24 hours`` are equal.
        """
        now, was, means = self.described(), earlier.get, {"window": window or _text}
        changed = [
            name
            for name in FIXED
            if _text(now[name]) != _text(was(name))
            and means.get(name, _text)(now[name]) != means.get(name, _text)(was(name))
        ]
        changed += [
            name for name, value in DECISIVE.items() if (now[name] == value) != (was(name) == value)
        ]
        return [
            f"--{name.replace('_', '-')} was {_text(was(name))!r} and is {_text(now[name])!r}"
            for name in changed
        ]

    def replace(self, **changes: Any) -> Self:
        return replace(self, **changes)


_HINTS = get_type_hints(Job)
_OWN = [name for name in Job.__annotations__ if name != "input"]
#: The options in the order of the help, with those of windows together.
_NAMES = [*_OWN[: _OWN.index("output")], *OF_WINDOWS, *_OWN[_OWN.index("output") :]]


def add_options(parser: _ActionsContainer, names: Collection[str] | None = None) -> None:
    """Add all or some options of a job, without defaults, as the config file may have them."""
    group, own = parser, {each.name: each for each in fields(Job)}
    for each in (own[name] for name in _NAMES if names is None or name in names):
        if names is None and each.name in GROUPS:
            group = parser.add_argument_group(GROUPS[each.name])
        how: dict[str, Any] = {**each.metadata, "choices": _choices(each.name)}
        if "default" not in how["help"]:
            nothing: dict[Any, str] = {None: "none", False: "no", (): "none"}
            shown = nothing.get(each.default, each.default)
            how["help"] += f"; default: {shown}"
        if _HINTS[each.name] is bool:
            del how["metavar"], how["choices"]
            how["action"] = BooleanOptionalAction if each.default else "store_true"
        elif get_origin(_HINTS[each.name]) is tuple:
            how["action"] = "append"
        elif int in get_args(_HINTS[each.name]):
            how["type"] = at_least_one
        group.add_argument(f"--{each.name.replace('_', '-')}", default=None, **how)


def read_config(path: Path) -> dict[str, Any]:
    """Return the options in a TOML file; its keys are the names of the long options."""
    try:
        config = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidRequest(f"--config {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"--config {path} is not TOML: {error}") from error
    options = {name.replace("-", "_"): value for name, value in config.items()}
    if unknown := sorted(options.keys() - _HINTS.keys()):
        raise InvalidRequest(
            f"--config {path}: unknown options {', '.join(unknown)}; it can have "
            f"{', '.join(['input', *_NAMES])}"
        )
    if isinstance(options.get("agg"), dict):
        given = options["agg"].items()
        options["agg"] = [
            f"{name}={':'.join(map(str, pair)) if isinstance(pair, list) else pair}"
            for name, pair in given
        ]
    return options


def read_job(folder: Path) -> dict[str, Any] | None:
    """Return the job that a run saved in its output folder, if any; raises CorruptState."""
    note = folder / "job.json"
    if not note.is_file():
        return None
    return read_note(note, "restore the file, or start the run with --overwrite")


def read_note(path: Path, remedy: str) -> dict[str, Any]:
    """Return the content of a file that a command saved. Raises CorruptState with the remedy."""
    try:
        found = json.loads(path.read_text())
    except ValueError as error:  # invalid bytes or invalid JSON
        raise CorruptState(f"{path} is damaged ({error}): {remedy}") from error
    if not isinstance(found, dict):
        raise CorruptState(f"{path} is damaged (it is not a JSON object): {remedy}")
    return found


def _choices(name: str) -> tuple[str, ...] | None:
    hint = _HINTS[name]
    literal = next((kind for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal), None)
    return get_args(literal) or None


def _value(name: str, value: Any) -> Any:
    hint = _HINTS[name]
    if choices := _choices(name):
        if value not in choices:
            raise InvalidRequest(f"{name} is {value!r}: it must be one of {', '.join(choices)}")
        return value
    if several := get_origin(hint) is tuple:
        value = tuple(value) if isinstance(value, list | tuple) else (value,)
    kinds = (str,) if several else (hint, *get_args(hint))
    if not all(type(item) in kinds for item in (value if several else (value,))):
        raise InvalidRequest(f"the option {name} cannot be {value!r}")
    if int in kinds and value < 1:
        raise InvalidRequest(f"--{name.replace('_', '-')} must be at least 1")
    return value


def _text(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list | tuple) else value
