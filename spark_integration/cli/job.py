"""What ``mta run`` is asked to do: from options, a TOML file and defaults to one checked value."""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from mta.cli.handles import without_credentials
from spark_integration.cli.expressions import parse_every
from spark_integration.errors import InvalidRequest

CHOICES: Mapping[str, tuple[str, ...]] = {
    "format": ("csv", "json", "parquet"),
    "late": ("error", "drop", "side"),
    "corrections": ("onward", "append"),
    "invalid": ("error", "drop"),
    "silent": ("keep", "drop", "emit"),
    "results": ("event", "last"),
    "write": ("parquet", "csv"),
}


@dataclass(frozen=True)
class Job:
    """One run: input, columns, aggregations, window, and where the results and pages go.

    The fields are the long options of ``mta run`` and the keys of its ``--config`` file.
    """

    input: tuple[str, ...] = ()
    output: str = "mta-output"
    format: Literal["csv", "json", "parquet"] | None = None
    key: str | None = None
    key_from_file_name: bool = False
    time: str | None = None
    time_format: str | None = None
    value: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    agg: tuple[str, ...] = ()
    window: str | tuple[str, ...] = "24 hours"
    store: str | None = None
    every: str | None = None
    results: Literal["event", "last"] = "event"
    late: Literal["error", "drop", "side"] = "error"
    allowed_lateness: str | None = None
    corrections: Literal["onward", "append"] = "onward"
    invalid: Literal["error", "drop"] = "error"
    silent: Literal["keep", "drop", "emit"] = "keep"
    watermark: str = "10 minutes"
    write: Literal["parquet", "csv"] = "parquet"
    files_per_batch: int | None = None
    follow: bool = False
    plot: bool = True
    overwrite: bool = False
    cores: int | None = None
    memory: str = "2g"

    @classmethod
    def from_arguments(cls, given: Namespace) -> Self:
        """The options given, over those of the ``--config`` file, over the defaults."""
        options = {name: value for name, value in vars(given).items() if value is not None}
        config = options.pop("config", None)
        given_windows = options.get("window")
        if isinstance(given_windows, list) and not any("=" in text for text in given_windows):
            options["window"] = given_windows[-1]  # as of any option, the last one counts
        merged = {**(read_config(Path(config)) if config else {}), **options}
        known = {field.name for field in fields(cls)}
        job = cls(**{name: _value(name, merged[name]) for name in known & merged.keys()})
        job._check()
        return job

    @property
    def folder(self) -> Path:
        """The output folder; everything that the job writes by itself lies in it."""
        return Path(self.output)

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint: which files were read, and every window's handle."""
        return self.folder / "checkpoint"

    @property
    def result_folder(self) -> Path:
        """The result rows, as Parquet or CSV files."""
        return self.folder / "results"

    @property
    def windows(self) -> str:
        """All windows as one text."""
        return self.window if isinstance(self.window, str) else ", ".join(self.window)

    @property
    def store_url(self) -> str:
        """Where the pages lie; by default in the output folder, on local disk."""
        return self.store or f"file://{(self.folder / 'pages').absolute()}"

    def save(self) -> None:
        """Note the job in its folder, without credentials, for ``mta inspect`` and the next run."""
        described = asdict(self) | {"store": without_credentials(self.store_url)}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "job.json").write_text(json.dumps(described, indent=1) + "\n")

    def differences(self, earlier: Mapping[str, Any]) -> list[str]:
        """The settings that a checkpoint depends on and that are not as they were ``earlier``."""
        now = json.loads(json.dumps(asdict(self)))
        now["store"] = without_credentials(self.store_url)
        fixed = ("key", "key_from_file_name", "time", "value", "keep", "agg", "window", "store",
                 "results", "write")  # fmt: skip
        earlier = {"silent": "keep", "allowed_lateness": None, "corrections": "onward", **earlier}
        changed = [name for name in fixed if now[name] != earlier.get(name)]
        # These change the columns of the results, and of Spark's state; else they are free.
        free: list[tuple[str, str | None]] = [
            ("late", "side"), ("silent", "keep"), ("allowed_lateness", None),
            ("corrections", "onward"),
        ]  # fmt: skip
        for name, value in free:
            if (now[name] == value) != (earlier.get(name) == value):
                changed.append(name)
        return [
            f"--{name.replace('_', '-')} was {earlier.get(name)!r} and is {now[name]!r}"
            for name in changed
        ]

    def replace(self, **changes: Any) -> Self:
        """The job with some fields changed."""
        return replace(self, **changes)

    def _check(self) -> None:
        if not self.input:
            raise InvalidRequest("no input: name a file or a folder, or 'input' in the config file")
        if self.key and self.key_from_file_name:
            raise InvalidRequest("give either --key or --key-from-file-name, not both")
        if self.files_per_batch is not None and self.files_per_batch < 1:
            raise InvalidRequest("--files-per-batch must be at least 1")
        if self.cores is not None and self.cores < 1:
            raise InvalidRequest("--cores must be at least 1")
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) is not None and value not in choices:
                raise InvalidRequest(f"{name} is {value!r}; it can be {', '.join(choices)}")
        if self.every is not None:
            self._check_every(isinstance(parse_every(self.every), str))

    def _check_every(self, by_period: bool) -> None:
        """Raises InvalidRequest where results now and then do not go with another option."""
        if self.corrections == "append":
            raise InvalidRequest(
                "--every does not go with --corrections append, as most rows are never given; "
                "leave one of them out"
            )
        if not by_period and self.silent not in (None, "keep") and self.allowed_lateness is None:
            raise InvalidRequest(
                "--every with a number of events does not go with --silent, as the count would "
                "depend on when a silence is noticed; give a period, or --allowed-lateness '0 "
                "seconds', with which a key counts anew once it was forgotten"
            )
        if by_period and self.allowed_lateness is not None:
            raise InvalidRequest(
                "--every with a period does not go with --allowed-lateness, as late rows would "
                "change results that are out; give a number of events, as --every '100 events', "
                "or leave one of them out"
            )
        if by_period and self.silent == "emit":
            raise InvalidRequest(
                "--every with a period does not go with --silent emit, as its rows tell when a "
                "window is empty; give --silent drop"
            )


def read_config(path: Path) -> dict[str, Any]:
    """The options in a TOML file; the keys are the long options' names."""
    try:
        config = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidRequest(f"--config {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"--config {path} is not TOML: {error}") from error
    options = {name.replace("-", "_"): value for name, value in config.items()}
    known = [field.name for field in fields(Job)]
    if unknown := sorted(options.keys() - set(known)):
        raise InvalidRequest(
            f"--config {path}: unknown {', '.join(unknown)}; it can hold {', '.join(known)}"
        )
    for option in ("agg", "window"):
        if isinstance(options.get(option), dict):
            options[option] = [f"{name}={value}" for name, value in options[option].items()]
    return options


def read_job(folder: Path) -> dict[str, Any] | None:
    """The job that an earlier run noted in its output folder, if there is one."""
    note = folder / "job.json"
    if not note.is_file():
        return None
    job: dict[str, Any] = json.loads(note.read_text())
    return job


def _value(name: str, value: Any) -> Any:
    """The value with the type of its field, or InvalidRequest."""
    if name == "window" and isinstance(value, list) and len(value) == 1:
        value = value[0]
    if name in ("input", "value", "keep", "agg") or (name == "window" and isinstance(value, list)):
        value = (value,) if isinstance(value, str) else tuple(value)
        fits = all(isinstance(item, str) for item in value)
    elif name in ("key_from_file_name", "follow", "plot", "overwrite"):
        fits = isinstance(value, bool)
    elif name in ("files_per_batch", "cores"):
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, str)
    if not fits:
        raise InvalidRequest(f"the option {name} cannot be {value!r}")
    return value
