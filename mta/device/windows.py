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
from pathlib import Path
from typing import Any

import numpy as np

from mta.device.config import Config
from mta.device.events import Event, Key
from mta.errors import CorruptSnapshot
from mta.keyed.windows import KeyedWindows
from mta.pages import corrupt
from mta.snapshots import seal, unseal

MAGIC, VERSION = "mta-device", 1
Result = dict[str, Any]


class DeviceWindows:
    """The windows of a configuration; continues from the state in its folder, if there is one.

    Raises CorruptSnapshot, and the errors of ``KeyedWindows.restore``.
    """

    def __init__(self, config: Config) -> None:
        self._config, self._folder = config, Path(config.folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self.counts: Counter[str] = Counter()
        self._ids: dict[Key, dict[tuple[int, bytes], None]] = {}
        self._crossed: set[tuple[Key, str]] = set()
        settings: Any = {
            "nulls": "skip", "on_late": "drop", "allowed_lateness": config.allowed_lateness or None,
        }  # fmt: skip
        aggregations, frames = config.aggregations, config.frames
        store = f"file://{self._folder.absolute()}/pages?write_buffer=1MiB&cache=1MiB"
        self._state = self._folder / "state"
        if not self._state.exists():
            self.windows = KeyedWindows(
                aggregations, frames, store, "device", timed=True, **settings
            )
            return
        try:
            data = self._state.read_bytes()
            snapshot, ids, crossed = unseal(data, MAGIC, VERSION, "a device's state", _validated)
        except CorruptSnapshot as error:
            raise CorruptSnapshot(f"{self._state}: {error}") from error
        self.windows = KeyedWindows.restore(
            snapshot, store, aggregations=aggregations, window=frames, **settings
        )
        self._ids = {_key(key): dict.fromkeys(map(tuple, some)) for key, some in ids}
        self._crossed = {(_key(key), name) for key, name in crossed}

    def add(self, events: Sequence[Event]) -> Iterator[Result]:
        """Add events that are not known yet; yield the result after each, and crossed bounds."""
        fresh = [event for event in events if self._is_new(event)]
        self.counts["duplicates"] += len(events) - len(fresh)
        if not fresh:
            return
        values = {c: [event.values[c] for event in fresh] for c in self._config.columns}
        moments = np.array([event.time for event in fresh], "M8[us]")
        found = self.windows.extend([e.key for e in fresh], values or range(len(fresh)), moments)
        accepted = self.windows.last_accepted
        if accepted is not None:
            fresh = [event for event, good in zip(fresh, accepted.tolist(), strict=True) if good]
        self.counts["late"] += int((accepted == False).sum()) if accepted is not None else 0  # noqa: E712
        self.counts["events"] += len(fresh)
        columns = {name: plain(column) for name, column in found.items()}
        for at, event in enumerate(fresh):
            results = {name: column[at] for name, column in columns.items()}
            yield {"key": event.key, "time": _text(event.time), **results}
            yield from self._crossings(event, results)

    def results(self, keys: Iterable[Key]) -> Iterator[Result]:
        """Yield the results of keys, as of the newest event of each."""
        wanted = list(keys)
        found = self.windows.query(wanted) if wanted else {}
        columns = {
            f"{name}_{frame}": plain(column)
            for frame, results in found.items() for name, column in results.items()
        }  # fmt: skip
        for at, key in enumerate(wanted):
            yield {"key": key, **{name: column[at] for name, column in columns.items()}}

    def save(self) -> None:
        """Save the state; when it returns, it survives a loss of power."""
        lateness = self.windows.bucket.kind.settings.lateness or 0
        for key, ids in self._ids.items():
            oldest = max(time for time, _ in ids) - lateness
            self._ids[key] = {each: None for each in ids if each[0] >= oldest}
        known = [[key, list(some)] for key, some in self._ids.items()]
        state = seal(MAGIC, VERSION, [self.windows.checkpoint(), known, sorted(self._crossed)])
        draft = self._folder / "state.new"
        with draft.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._state)
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(self._folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def close(self) -> None:
        self.windows.close()

    def _is_new(self, event: Event) -> bool:
        ids, own = self._ids.setdefault(event.key, {}), (event.time, event.id)
        if own in ids:
            return False
        ids[own] = None
        return True

    def _crossings(self, event: Event, results: Result) -> Iterator[Result]:
        for name, (result, side, limit) in self._config.bounds.items():
            value, this = results[result], (event.key, name)
            crossed = value is not None and (value > limit if side == "above" else value < limit)
            if crossed != (this in self._crossed):
                (self._crossed.add if crossed else self._crossed.remove)(this)
                yield {"key": event.key, "time": _text(event.time), "bound": name,
                       "crossed": crossed, result: value}  # fmt: skip


def plain(column: Any) -> list[Any]:
    """Return a column of results as plain values, None for nulls and NaN."""
    return [None if value != value else value for value in column.tolist()]


def _text(micros: int) -> str:
    return f"{np.datetime64(micros, 'us')}Z"


def _key(given: Any) -> Key:
    return tuple(given) if isinstance(given, list) else given


def _validated(values: list[Any]) -> tuple[bytes, list[Any], list[Any]]:
    match values:
        case [bytes(snapshot), list(ids), list(crossed)]:
            pairs = [*ids, *crossed, *(each for _, some in ids for each in some)]
            if all(isinstance(each, list) and len(each) == 2 for each in pairs):
                return snapshot, ids, crossed
    raise corrupt("its fields have the wrong types")
