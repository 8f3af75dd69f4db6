"""The settings of ``mta device``, in a file of TOML.

folder = "/var/lib/mta-device"           # for the pages and the state
keys = "device"                          # a column, or several; default: one window for all
time = "ts"                              # ISO 8601 or a number; default: when it arrives
time_unit = "s"                          # of numbers: s, ms, us or ns
id = "number"                            # default: the whole message
allowed_lateness = "1 minute"            # default: none, events of a key come in order

[input]
from = "mqtt://localhost"                # or "json" or "csv": lines of standard input
topic = "sensors/+"

[frames]
hour = "1 hour"                          # a duration, or a number of events
few = 100

[aggregations]
peak = ["watts", "max"]                  # a column, or several, and an aggregation
readings = "count"

[bounds]
overload = ["peak_hour", "above", 3000]

[output]
to = ["stdout", "mqtt"]
every = "event"                          # or a duration; "" for bounds only
topic = "windows/{key}"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from mta.errors import WindowStoreError
from mta.frames.base import Frame
from mta.frames.shorthand import frames_of
from mta.monoids.product import Product, result_name
from mta.times import require_unit, to_duration

BOUNDS = ("above", "below")


class InvalidConfig(WindowStoreError, ValueError):
    """A setting of ``mta device`` is missing, unknown or wrong: correct the file."""


@dataclass(frozen=True)
class Input:
    """Where events come from."""

    source: str
    """The address of a broker, or "json" or "csv" for lines of standard input."""
    topic: str = ""
    client_id: str = "mta-device"
    in_flight: int = 20
    """How many messages the broker sends before the first is acknowledged."""


@dataclass(frozen=True)
class Output:
    """Where results go, and when."""

    to: list[str] = field(default_factory=lambda: ["stdout"])
    every: str = "event"
    topic: str = "windows/{key}"
    broker: str = ""
    """The address of the broker for results; by default that of the input."""
    queue: int = 1000
    """How many results wait for the broker; further ones are dropped and counted."""

    @property
    def period(self) -> float | None:
        """Return the seconds between periodic results; None for results after each event."""
        return None if self.every in ("", "event") else to_duration(self.every) / 1e6


@dataclass(frozen=True)
class Snapshots:
    """How often the state is saved."""

    every: str = "10 seconds"
    events: int = 10_000


@dataclass(frozen=True)
class Config:
    """The settings; see the module."""

    folder: str
    input: Input
    frames: dict[str, Frame]
    aggregations: Product
    keys: list[str] = field(default_factory=list)
    time: str = ""
    time_unit: str = ""
    id: str = ""
    allowed_lateness: str = ""
    bounds: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    output: Output = field(default_factory=Output)
    snapshot: Snapshots = field(default_factory=Snapshots)

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns of values."""
        return list(self.aggregations.columns)

    @property
    def broker(self) -> str:
        """Return the address of the broker, "" if there is none."""
        own = "" if self.input.source in ("json", "csv") else self.input.source
        return own or (self.output.broker if "mqtt" in self.output.to else "")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises InvalidConfig, and OSError for a file that cannot be read."""
        try:
            return cls._of(tomllib.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError) as error:
            why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
            raise InvalidConfig(f"{path}: {why}") from error

    @classmethod
    def _of(cls, given: dict[str, Any]) -> Self:
        source = {**given["input"]}
        source["source"] = source.pop("from", None)
        keys = given.get("keys", [])
        made = cls(**_known(cls, given, "the file") | {
            "keys": [keys] if isinstance(keys, str) else keys,
            "input": Input(**_known(Input, source, "[input]")),
            "frames": frames_of(given["frames"]),
            "aggregations": Product(_pairs(given["aggregations"])),
            "output": Output(**_known(Output, given.get("output", {}), "[output]")),
            "snapshot": Snapshots(**_known(Snapshots, given.get("snapshot", {}), "[snapshot]")),
        })  # fmt: skip
        made._check()
        return made

    def _check(self) -> None:
        """Raise ValueError for settings that contradict each other."""
        source = self.input.source
        if source not in ("json", "csv") and urlsplit(source).scheme not in ("mqtt", "mqtts"):
            raise ValueError(f'[input] from is "json", "csv" or mqtt://HOST, not {source!r}')
        if source not in ("json", "csv") and not self.input.topic:
            raise ValueError("[input] needs a topic to subscribe to")
        if unknown := set(self.output.to) - {"stdout", "mqtt"}:
            raise ValueError(f'[output] to lists "stdout" and "mqtt", not {sorted(unknown)}')
        if "mqtt" in self.output.to and not self.broker:
            raise ValueError('[output] to mqtt needs a broker = "mqtt://HOST"')
        names = [result_name(a, f) for f in self.frames for a in self.aggregations.aliases]
        for name, (result, side, _) in self.bounds.items():
            if result not in names or side not in BOUNDS:
                raise ValueError(f"[bounds] {name} is [RESULT, above or below, NUMBER], where "
                                 f"RESULT is one of {', '.join(names)}")  # fmt: skip
        if self.time_unit:
            require_unit(self.time_unit)
        to_duration(self.snapshot.every, "[snapshot] every")
        _ = self.output.period, self.output.topic.format(key="")


def _known(kind: Any, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return settings as arguments. Raises ValueError for an unknown name or a wrong type."""
    types = {each.name: each.type.partition("[")[0] for each in fields(kind)}
    for name, value in given.items():
        shown = "from" if name == "source" else name
        if name not in types:
            raise ValueError(f"{where} has no setting {name}; there are {', '.join(types)}")
        if types[name] in ("str", "int") and type(value).__name__ != types[name]:
            raise ValueError(f"{where}: {shown} is of type {types[name]}, not {value!r}")
    return dict(given)


def _pairs(given: dict[str, Any]) -> dict[str, Any]:
    """Return aggregations as Product takes them; one without columns reads none."""
    return {
        name: (None, how) if isinstance(how, str) else (tuple(how[:-1]), how[-1])
        for name, how in given.items()
    }
