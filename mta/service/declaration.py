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
minute"), ``retry_for`` ("5 minutes"), ``snapshot_every`` ("5 seconds"), ``delay`` ("4 ms"),
``takeover_after`` ("1 second"), ``cache`` ("64MiB") and ``on_unavailable`` ("refuse").
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import msgpack

from mta.errors import WindowStoreError
from mta.frames.base import Frame
from mta.frames.shorthand import frame_of
from mta.keyed.admission import Limits
from mta.keyed.windows import KeyedWindows
from mta.monoids.product import Product, pairs_of, result_name
from mta.publishing.records import MAX_BUCKETS, SERVICE
from mta.times import to_duration
from stores import PageStore
from stores.address import size

OnUnavailable = Literal["refuse", "admit"]
#: The types of keys, and what Spark calls them, as published records do.
KEY_TYPES = {"text": "string", "int": "bigint", "date": "date"}
#: The types of values, and what monoids call them.
VALUE_TYPES: dict[str, Any] = {"float": None, "int": "int64", "bool": "bool", "text": str}
SAMPLES: dict[str, Any] = {"float": 1.0, "int": 1, "bool": True, "text": "a"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
#: How many earlier snapshots keep their pages.
RETAIN = 8
#: The column of the id of an event.
ID = "id"


class InvalidDeclaration(WindowStoreError, ValueError):
    """A file does not declare windows: correct the line that the message names."""


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
    delay: int = 4_000
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
        )  # fmt: skip


def read_declaration(path: Path) -> Declaration:
    """Read a file. Raises InvalidDeclaration, and OSError for a file that cannot be read."""
    return _Reader(str(path), path.read_text(encoding="utf-8")).declaration()


class _Reader:
    """Reads a text; errors name the line of the setting."""

    def __init__(self, file: str, text: str) -> None:
        self._file, self._lines = file, text.splitlines()
        try:
            self._given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            line = found[1] if found else len(self._lines)
            raise InvalidDeclaration(f"{file}:{line}: this is not TOML: {error}") from None

    def declaration(self) -> Declaration:
        given = self._given
        known = {*Declaration.__dataclass_fields__}
        for unknown in given.keys() - known:
            close = get_close_matches(unknown, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else f": {', '.join(sorted(known))}"
            self._fail(unknown, f"there is no setting {unknown!r}{hint}")
        values = {
            name: self._value_type(name, kind) for name, kind in self._table("values").items()
        }
        frames = {name: self._frame(name, size) for name, size in self._table("frames").items()}
        if not frames:
            self._fail("frames", 'declare a frame, such as day = "1 day"')
        optional: dict[str, Any] = {
            name: self._duration(name)
            for name in ("max_ahead", "retry_for", "snapshot_every", "delay", "takeover_after")
            if name in given
        }
        if "allowed_lateness" in given:
            optional["allowed_lateness"] = self._duration("allowed_lateness")
        if "cache" in given:
            optional["cache"] = self._size("cache")
        if "on_unavailable" in given:
            optional["on_unavailable"] = self._one_of("on_unavailable", get_args(OnUnavailable))
        if "time" in given:
            optional["time"] = self._text("time", _COLUMN, "the name of a column")
        keys = tuple(self._key(name, kind) for name, kind in self._table("keys").items())
        if not keys:
            self._fail("keys", 'declare a key column, such as keys = { user = "text" }')
        aggregations = self._aggregations(values)
        found = Declaration(
            self._text("name", _NAME, "a name of letters, digits, _ and -"),
            self._text("store", re.compile(r"\w+://.*"), "the URL of a store"),
            keys, values, frames, aggregations, {}, self._shards(), **optional,
        )  # fmt: skip
        self._require_distinct_columns(found)
        limits = {
            name: self._limit(name, each, found) for name, each in self._table("limits").items()
        }
        found = Declaration(**{**vars(found), "limits": limits})
        self._checked("allowed_lateness", lambda: Limits(found.windows(0, _memory()), limits))
        return found

    def _aggregations(self, values: Mapping[str, str]) -> Product:
        pairs = {
            alias: self._aggregation(alias, given, values)
            for alias, given in self._table("aggregations").items()
        }
        if not pairs:
            self._fail("aggregations", 'declare an aggregation, such as spent = ["amount", "sum"]')
        return self._checked("aggregations", lambda: Product(pairs))  # type: ignore[no-any-return]

    def _aggregation(self, alias: str, given: Any, values: Mapping[str, str]) -> Any:
        *columns, text = given if isinstance(given, list) and given else [given]
        for column in columns:
            if not isinstance(column, str) or column not in values:
                self._fail(alias, f"there is no value {column!r}; declare it in values")
        if not isinstance(text, str):
            self._fail(alias, 'an aggregation is ["amount", "sum"], or "count"')
        of = columns[0] if len(columns) == 1 else tuple(columns) or None
        kinds = [values[column] for column in columns]

        def tried() -> Any:
            ((read, monoid),) = pairs_of({alias: (of, text) if columns else text}).values()
            pair = read, monoid.of_types(*(VALUE_TYPES[kind] for kind in kinds))
            samples = {column: [SAMPLES[values[column]]] for column in columns}
            window = KeyedWindows({alias: pair}, "1 second")
            window.extend([0], samples or range(1), [0])
            return pair

        return self._checked(alias, tried)

    def _limit(self, name: str, given: Any, found: Declaration) -> tuple[str, float]:
        if not isinstance(given, dict) or given.keys() != {"aggregate", "at_most"}:
            self._fail(name, 'a limit is { aggregate = "spent_day", at_most = 30 }')
        aggregate, most = given["aggregate"], given["at_most"]
        if not isinstance(aggregate, str) or aggregate not in found.columns:
            self._fail(name, f"there is no aggregate {aggregate!r}: {', '.join(found.columns)}")
        if isinstance(most, bool) or not isinstance(most, (int, float)) or most != most:
            self._fail(name, f"at_most is a number, not {most!r}")
        return aggregate, float(most)

    def _require_distinct_columns(self, found: Declaration) -> None:
        names = [name for name, _ in found.keys] + [*found.values]
        if found.time in names:
            self._fail("time", f"the column {found.time!r} is declared twice")
        for name in names:
            if names.count(name) > 1:
                self._fail(name, f"the column {name!r} is declared twice")
        if ID in (*names, found.time):
            name = "time" if found.time == ID else ID
            self._fail(name, f"the column {ID!r} is the id of the event: choose another name")

    def _key(self, name: str, kind: Any) -> tuple[str, str]:
        if not isinstance(kind, str) or kind not in KEY_TYPES or not _COLUMN.fullmatch(name):
            self._fail(name, f"a key column has the type {', '.join(KEY_TYPES)}, not {kind!r}")
        return name, KEY_TYPES[kind]

    def _value_type(self, name: str, kind: Any) -> str:
        if not isinstance(kind, str) or kind not in VALUE_TYPES or not _COLUMN.fullmatch(name):
            self._fail(name, f"a value has the type {', '.join(VALUE_TYPES)}, not {kind!r}")
        return kind

    def _frame(self, name: str, size: Any) -> Frame:
        if not _COLUMN.fullmatch(name):
            self._fail(name, "the name of a frame has letters, digits and _")
        if not isinstance(size, (int, str)) or isinstance(size, bool):
            self._fail(name, f"a frame is a duration or a number of events, not {size!r}")
        return self._checked(name, lambda: frame_of(size))  # type: ignore[no-any-return]

    def _shards(self) -> int:
        shards = self._given.get("shards", 4)
        if type(shards) is not int or not 1 <= shards <= min(1024, MAX_BUCKETS):
            self._fail("shards", f"shards is a whole number from 1 to 1024, not {shards!r}")
        return shards

    def _duration(self, name: str) -> int:
        try:
            return to_duration(self._given[name], name, 0)
        except (ValueError, TypeError) as error:
            self._fail(name, f"{name}: {error}")

    def _size(self, name: str) -> int:
        try:
            return size(str(self._given[name]))
        except ValueError as error:
            self._fail(name, f"{name} is {error}, not {self._given[name]!r}")

    def _one_of(self, name: str, choices: tuple[str, ...]) -> str:
        if self._given[name] not in choices:
            self._fail(name, f"{name} is {' or '.join(choices)}, not {self._given[name]!r}")
        return str(self._given[name])

    def _text(self, name: str, form: re.Pattern[str], what: str) -> str:
        found = self._given.get(name)
        if not isinstance(found, str) or not form.fullmatch(found):
            self._fail(
                name, f"{name} is {what}, not {found!r}" if found else f"give {name}: {what}"
            )
        return found

    def _table(self, name: str) -> dict[str, Any]:
        found = self._given.get(name, {})
        if not isinstance(found, dict):
            self._fail(name, f"{name} is a table, [{name}]")
        return found

    def _checked(self, name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (ValueError, TypeError, NotImplementedError) as error:
            self._fail(name, str(error))

    def _fail(self, name: str, problem: str) -> NoReturn:
        """Raise the error for a setting, with its line; of the first line if it is missing."""
        setting = re.compile(rf"""^\s*(\[{name}\]|["']?{re.escape(name)}["']?\s*[=.])""")
        inner = re.compile(rf"""[{{,]\s*["']?{re.escape(name)}["']?\s*=""")
        for form in (setting, inner):
            for number, line in enumerate(self._lines, 1):
                if form.search(line):
                    raise InvalidDeclaration(f"{self._file}:{number}: {problem}")
        raise InvalidDeclaration(f"{self._file}:1: {problem}")


def _memory() -> PageStore:
    from stores import MemoryStore

    return MemoryStore()
