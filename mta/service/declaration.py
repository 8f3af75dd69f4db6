"""Windows that are declared in a file of TOML; each error names the file and the line.

    name = "spend"
    store = "redis://localhost:6379/0"
    shards = 4                               # fixed when the windows are created; default 4
    keys = { user = "text" }                 # text, int or date; by default without time zones
    values = { amount = "float" }            # float, int, bool or text
    time = "ts"                              # the column of the time; default: the server's clock

    [frames]
    minute = "1 minute"                      # a duration, or a number of events
    day = "1 day"

    [aggregations]
    spent = ["amount", "sum"]                # a column, or several, and an aggregation
    requests = "count"

    [limits]
    daily = { aggregate = "spent_day", at_most = 30 }

The other settings, with their defaults, are ``allowed_lateness`` (none), ``max_ahead`` ("1
minute"), ``retry_for`` ("5 minutes"), ``snapshot_every`` ("5 seconds"), ``delay`` ("2 ms"),
``takeover_after`` ("1 second"), ``cache`` ("64MiB") and ``on_unavailable`` ("refuse").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import msgpack

from mta.declarations import COLUMN, SAMPLES, VALUE_TYPES, SettingsFile
from mta.frames.base import Frame
from mta.keyed.admission import Limits
from mta.keyed.windows import KeyedWindows
from mta.monoids.product import Product, result_name
from mta.publishing.records import MAX_BUCKETS, SERVICE
from stores import MemoryStore, PageStore
from stores.address import size

OnUnavailable = Literal["refuse", "admit"]
#: The types of keys, and what Spark calls them, as published records do.
KEY_TYPES = {"text": "string", "int": "bigint", "date": "date"}
_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,39}"
_DURATIONS = (
    "allowed_lateness", "max_ahead", "retry_for", "snapshot_every", "delay", "takeover_after",
)  # fmt: skip
#: How many earlier snapshots keep their pages.
RETAIN = 8
#: The size of a page of keys in bytes in a local store. A commit reads few keys of a page, and the
#: digest of the whole page. Smaller pages would need another level of indexes for a million keys.
_LOCAL_PAGE = 1 << 17
#: With how many events a limit is tried: the first ones may have no result.
_TRIED = 100
#: The column of the id of an event.
ID = "id"


@dataclass(frozen=True)
class Declaration:
    """Declared windows; durations are in microseconds."""

    name: str
    store: str = field(repr=False)
    keys: tuple[tuple[str, str], ...]
    """The name and the type of each key column, the type as Spark names it."""
    values: Mapping[str, str]
    frames: Mapping[str, Frame]
    aggregations: Product
    limits: Mapping[str, tuple[str, float]]
    shards: int = 4
    time: str | None = None
    allowed_lateness: int | None = None
    max_ahead: int = 60_000_000
    retry_for: int = 300_000_000
    snapshot_every: int = 5_000_000
    delay: int = 2_000
    takeover_after: int = 1_000_000
    cache: int = 1 << 26
    on_unavailable: OnUnavailable = "refuse"

    @property
    def source(self) -> str:
        """Return who publishes the windows."""
        return SERVICE + self.name

    @property
    def fingerprint(self) -> bytes:
        """Return the digest of what may not change while there are events."""
        frames = [(name, frame.fingerprint) for name, frame in self.frames.items()]
        fixed = (self.shards, self.keys, [*self.values.items()], self.time, frames,
                 self.aggregations.fingerprint, self.allowed_lateness)  # fmt: skip
        return blake2b(msgpack.packb(fixed), digest_size=16).digest()

    @property
    def columns(self) -> list[str]:
        """Return the names of the results."""
        return [result_name(a, frame) for frame in self.frames for a in self.aggregations.aliases]

    def windows(self, shard: int, store: PageStore) -> KeyedWindows:
        """Return the windows of a shard, without events."""
        lateness = self.allowed_lateness
        return KeyedWindows(
            self.aggregations, self.frames, store, f"{self.name}.{shard}", timed=True,
            allowed_lateness=None if lateness is None else lateness / 1e6, on_late="drop",
            nulls="accept", retain=RETAIN, cache_bytes=self.cache,
            page_bytes=None if store.capabilities.remote else _LOCAL_PAGE,
        )  # fmt: skip


def read_declaration(path: Path) -> Declaration:
    """Read a file. Raises InvalidDeclaration, and OSError for a file that cannot be read."""
    settings = SettingsFile(path)
    values = {
        name: _type(settings, name, kind, VALUE_TYPES, "value")
        for name, kind in settings.table("values").items()
    }

    def type_of(column: Any) -> str:
        if not isinstance(column, str) or column not in values:
            raise ValueError(f"there is no value {column!r}; declare it in values")
        return values[column]

    readers: dict[str, Callable[[str], Any]] = {
        "name": lambda name: settings.text(name, _NAME, "a name of letters, digits, _ and -"),
        "store": lambda name: settings.text(name, r"\w+://.*", "the URL of a store"),
        "keys": lambda name: _keys(settings, name),
        "values": lambda name: values,
        "frames": settings.frames,
        "aggregations": lambda _: settings.aggregations(type_of),
        "limits": settings.table,
        "shards": lambda name: settings.whole(name, min(1024, MAX_BUCKETS)),
        "time": settings.column,
        "cache": lambda name: _size(settings, name),
        "on_unavailable": lambda name: settings.one_of(name, get_args(OnUnavailable)),
        **dict.fromkeys(_DURATIONS, settings.duration),
    }
    given = settings.read(Declaration, readers)
    found = Declaration(**given | {"limits": {}})
    _require_distinct_columns(settings, found)
    limits = {name: _limit(settings, name, each, found) for name, each in given["limits"].items()}
    settings.checked("allowed_lateness", lambda: Limits(found.windows(0, MemoryStore()), limits))
    for name, limit in limits.items():
        _require_number(settings, name, limit, found)
    return replace(found, limits=limits)


def _keys(settings: SettingsFile, name: str) -> tuple[tuple[str, str], ...]:
    given = settings.table(name)
    if not given:
        settings.fail(name, 'declare a key column, such as keys = { user = "text" }')
    return tuple(
        (column, KEY_TYPES[_type(settings, column, kind, KEY_TYPES, "key column")])
        for column, kind in given.items()
    )


def _type(settings: SettingsFile, name: str, kind: Any, types: Iterable[str], what: str) -> str:
    if kind not in [*types] or not COLUMN.fullmatch(name):
        settings.fail(name, f"a {what} has the type {', '.join(types)}, not {kind!r}")
    return str(kind)


def _size(settings: SettingsFile, name: str) -> int:
    try:
        return size(str(settings.given[name]))
    except ValueError as error:
        settings.fail(name, f"{name} is {error}, not {settings.given[name]!r}")


def _limit(settings: SettingsFile, name: str, given: Any, found: Declaration) -> tuple[str, float]:
    if not isinstance(given, dict) or given.keys() != {"aggregate", "at_most"}:
        settings.fail(name, 'a limit is { aggregate = "spent_day", at_most = 30 }')
    aggregate, most = given["aggregate"], given["at_most"]
    if not isinstance(aggregate, str) or aggregate not in found.columns:
        settings.fail(name, f"there is no aggregate {aggregate!r}: {', '.join(found.columns)}")
    if isinstance(most, bool) or not isinstance(most, (int, float)) or most != most:
        settings.fail(name, f"at_most is a number, not {most!r}")
    return aggregate, float(most)


def _require_number(
    settings: SettingsFile, name: str, limit: tuple[str, float], found: Declaration
) -> None:
    """Try a limit on some events: some aggregates are text, lists or sketches."""
    windows, values = found.windows(0, MemoryStore()), found.values.items()
    columns: Any = {column: [SAMPLES[kind]] * _TRIED for column, kind in values} or range(_TRIED)
    keys = times = [0] * _TRIED
    try:
        Limits(windows, {name: limit}).admit(windows.read(keys, columns, times), add=False)
    except (TypeError, ValueError):
        settings.fail(name, f"{limit[0]} is not a number, so it can have no limit")


def _require_distinct_columns(settings: SettingsFile, found: Declaration) -> None:
    names = [name for name, _ in found.keys] + [*found.values]
    if found.time in names:
        settings.fail("time", f"the column {found.time!r} is declared twice")
    for name in names:
        if names.count(name) > 1:
            settings.fail(name, f"the column {name!r} is declared twice")
    if ID in (*names, found.time):
        name = "time" if found.time == ID else ID
        settings.fail(name, f"the column {ID!r} is the id of the event: choose another name")
