"""The settings of ``mta device``, in a file of TOML.

folder = "/var/lib/mta-device"           # for the pages and the state
input = "mqtt"                           # or "json" or "csv": lines of standard input
output = ["stdout", "mqtt"]
broker = "mqtt://localhost"
subscribe = "sensors/+"
publish = "windows/{key}"
keys = ["device"]                        # default: one window for all
time = "ts"                              # ISO 8601 or a number; default: when it arrives
time_unit = "s"                          # of numbers: s, ms, us or ns
id = "number"                            # default: the whole message
allowed_lateness = "1 minute"            # default: none, events of a key come in order
emit_every = "event"                     # or a duration, or "bound" for bounds only

[frames]
hour = "1 hour"                          # a duration, or a number of events
few = 100

[aggregations]
peak = ["watts", "max"]                  # a column, or several, and an aggregation
readings = "count"

[bounds]
overload = ["peak_hour", "above", 3000]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mta.declarations import SettingsFile
from mta.frames.base import Frame
from mta.monoids.product import Product, result_name
from mta.times import TIME_UNITS, TimeUnit
from mta.windows.settings import Settings


@dataclass(frozen=True)
class Config:
    """The settings; durations are in seconds."""

    folder: Path
    input: str
    frames: Mapping[str, Frame]
    aggregations: Product
    output: list[str] = field(default_factory=lambda: ["stdout"])
    broker: str = ""
    subscribe: str = ""
    publish: str = "windows/{key}"
    client_id: str = "mta-device"
    in_flight: int = 20
    """How many messages the broker sends before the first is acknowledged."""
    keys: list[str] = field(default_factory=list)
    time: str = ""
    time_unit: TimeUnit | None = None
    id: str = ""
    allowed_lateness: float | None = None
    bounds: Mapping[str, tuple[str, str, float]] = field(default_factory=dict)
    emit_every: str | float = "event"
    """The time between results, or "event" for one after each event, or "bound" for bounds only."""
    snapshot_every: float = 10
    snapshot_events: int = 10_000

    @property
    def settings(self) -> Settings:
        """Return the settings of the windows."""
        return Settings(nulls="skip", on_late="drop", allowed_lateness=self.allowed_lateness)


def read_config(path: Path) -> Config:
    """Read a file. Raises InvalidDeclaration, and OSError for a file that cannot be read."""
    settings = SettingsFile(path)

    def seconds(name: str) -> float:
        return settings.duration(name) / 1e6

    readers: dict[str, Callable[[str], Any]] = {
        "folder": lambda name: Path(settings.text(name)),
        "input": lambda name: settings.one_of(name, ("json", "csv", "mqtt")),
        "frames": settings.frames,
        "aggregations": lambda _: settings.aggregations(_type_of),
        "bounds": settings.table,
        **dict.fromkeys(("allowed_lateness", "snapshot_every"), seconds),
        "broker": lambda name: _broker(settings, name),
        "output": lambda name: _texts(settings, name, ("stdout", "mqtt")),
        "keys": lambda name: _texts(settings, name),
        "time_unit": lambda name: settings.one_of(name, (*TIME_UNITS,)),
        "emit_every": lambda name: (
            settings.given[name] if settings.given[name] in ("event", "bound") else seconds(name)
        ),
        "in_flight": lambda name: settings.whole(name, 65_535),
        "snapshot_events": lambda name: settings.whole(name, 1_000_000),
    }
    found = Config(**settings.read(Config, readers))
    if "mqtt" in (found.input, *found.output) and not found.broker:
        settings.fail("broker", 'mqtt needs a broker = "mqtt://HOST"')
    if found.input == "mqtt" and not found.subscribe:
        settings.fail("input", 'mqtt needs a topic: subscribe = "sensors/+"')
    names = [result_name(a, f) for f in found.frames for a in found.aggregations.aliases]
    for name, bound in found.bounds.items():
        match bound:
            case [str(result), "above" | "below", int() | float()] if result in names:
                continue
        settings.fail(name, f"a bound is [RESULT, above or below, NUMBER], where RESULT is one of "
                            f"{', '.join(names)}")  # fmt: skip
    return found


def _type_of(column: Any) -> str:
    if not isinstance(column, str):
        raise TypeError(f"a column is text, not {column!r}")
    return "float"


def _broker(settings: SettingsFile, name: str) -> str:
    found = settings.text(name, "mqtts?://.+", "mqtt://HOST or mqtts://HOST")
    settings.checked(name, lambda: urlsplit(found).port)
    return found


def _texts(settings: SettingsFile, name: str, choices: tuple[str, ...] = ()) -> list[str]:
    given = settings.given[name]
    found = given if isinstance(given, list) else [given]
    if not all(isinstance(each, str) and each in (choices or found) for each in found):
        what = " and ".join(choices) or "names of columns"
        settings.fail(name, f"{name} lists {what}, not {given!r}")
    return found
