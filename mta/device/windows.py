"""The windows of each key of a device, and their state, which survives a loss of power.

The state is one file: it is written beside the old one, synced and renamed. So after a crash,
either state is there, with all pages that it needs.

    state     = body digest                                     (as ``mta.snapshots``)
    body      = msgpack array [magic, version, snapshot, ids, crossed]
    magic     = "mta-device"
    version   = 1
    snapshot  = bytes, the windows (``mta.keyed.snapshot``)
    ids       = array of [key, array of [time, id]]: the events of each key that may come again
    crossed   = array of [key, name]: the bounds that results have crossed

After a crash, a broker delivers again what was not acknowledged, in part events that the state has.
An event that is older than its key's newest one by more than the allowed lateness is dropped
anyway. So the ids of the others suffice to count each event once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np

from mta.device.config import Config
from mta.device.events import Event, Key
from mta.errors import CorruptSnapshot
from mta.keyed.windows import KeyedWindows
from mta.monoids.product import result_columns
from mta.snapshots import entries, entry, is_time, seal, unseal
from stores.local_disk import sync_folder

MAGIC, VERSION = "mta-device", 1
Result = dict[str, Any]


class DeviceWindows:
    """The windows of a configuration; continues from the state in its folder, if there is one.

    Raises CorruptSnapshot, and the errors of ``KeyedWindows.restore``.
    """

    def __init__(self, config: Config) -> None:
        self._config, self._state = config, config.folder / "state"
        config.folder.mkdir(parents=True, exist_ok=True)
        self.counts: Counter[str] = Counter()
        self._ids: dict[Key, dict[tuple[int, bytes], None]] = {}
        self._crossed: set[tuple[Key, str]] = set()
        settings = config.settings.keywords(KeyedWindows)
        store = f"file://{config.folder.absolute()}/pages?write_buffer=1MiB&cache=1MiB"
        if not self._state.exists():
            self.windows = KeyedWindows(
                config.aggregations, config.frames, store, "device", timed=True, **settings
            )
            return
        try:
            snapshot, ids, crossed = unseal(
                self._state.read_bytes(), MAGIC, VERSION, "a device's state", _validated
            )
        except CorruptSnapshot as error:
            raise CorruptSnapshot(f"{self._state}: {error}") from error
        self.windows = KeyedWindows.restore(
            snapshot, store, aggregations=config.aggregations, window=config.frames, **settings
        )
        self._ids = {_key(key): dict.fromkeys(some) for key, some in ids}
        self._crossed = {(_key(key), name) for key, name in crossed}

    def add(self, events: Sequence[Event]) -> Iterator[Result]:
        """Add events that are not known yet; yield the result after each, and crossed bounds."""
        fresh = [event for event in events if self._is_new(event)]
        self.counts["duplicates"] += len(events) - len(fresh)
        columns = self._config.aggregations.columns
        values = {c: [event.values[c] for event in fresh] for c in columns}
        moments = np.array([event.time for event in fresh], "M8[us]")
        found = self.windows.extend([e.key for e in fresh], values or range(len(fresh)), moments)
        if self.windows.last_accepted is not None:
            accepted = [*compress(fresh, self.windows.last_accepted)]
            self.counts["late"] += len(fresh) - len(accepted)
            fresh = accepted
        self.counts["events"] += len(fresh)
        for event, results in zip(fresh, _rows(found), strict=True):
            head = {"key": event.key, "time": f"{np.datetime64(event.time, 'us')}Z"}
            yield head | results
            yield from (head | crossing for crossing in self._crossings(event.key, results))

    def results(self, keys: Iterable[Key]) -> Iterator[Result]:
        """Return the results of keys, as of the newest event of each."""
        wanted = list(keys)
        found = _rows(result_columns(self.windows.query(wanted)))
        return ({"key": key, **results} for key, results in zip(wanted, found, strict=True))

    def save(self) -> None:
        """Save the state; when it returns, it survives a loss of power."""
        lateness = self._config.settings.lateness or 0
        for key, ids in self._ids.items():
            oldest = max((time for time, _ in ids), default=0) - lateness
            self._ids[key] = {each: None for each in ids if each[0] >= oldest}
        known = [[key, list(some)] for key, some in self._ids.items()]
        state = seal(MAGIC, VERSION, [self.windows.checkpoint(), known, sorted(self._crossed)])
        draft = self._state.with_name("state.new")
        with draft.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._state)
        sync_folder(str(self._config.folder))

    def _is_new(self, event: Event) -> bool:
        ids, own = self._ids.setdefault(event.key, {}), (event.time, event.id)
        if own in ids:
            return False
        ids[own] = None
        return True

    def _crossings(self, key: Key, results: Result) -> Iterator[Result]:
        for name, (result, side, limit) in self._config.bounds.items():
            value, this = results[result], (key, name)
            crossed = value is not None and (value > limit if side == "above" else value < limit)
            if crossed != (this in self._crossed):
                self._crossed ^= {this}
                yield {"bound": name, "crossed": crossed, result: value}


def _rows(columns: dict[str, Any]) -> Iterator[Result]:
    """Yield columns of results row by row, with None for nulls and NaN."""
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        values = (None if value != value else value for value in row)
        yield dict(zip(columns, values, strict=True))


def _key(given: Any) -> Key:
    return tuple(given) if isinstance(given, list) else given


def _is_key(given: Any) -> bool:
    return isinstance(given, str) or (
        isinstance(given, list) and all(isinstance(part, str) for part in given)
    )


def _validated(values: list[Any]) -> tuple[bytes, list[Any], list[Any]]:
    snapshot, ids, crossed = entry("fields", values, bytes, list, list)
    known = [
        (key, entries("ids", some, is_time, bytes))
        for key, some in entries("keys", ids, _is_key, list)
    ]
    return snapshot, known, entries("bounds", crossed, _is_key, str)
