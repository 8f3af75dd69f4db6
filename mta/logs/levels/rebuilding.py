"""Rebuilds an inner page from the level below.

An inner page contains the fold, the last time and the name of each page below. All of these follow
from the pages below, which a listing of the keys ``window/level/number/`` finds. Some of the listed
pages may be left over from a failed writer. The rebuild therefore tries every combination, and
returns the one that matches the digest in the parent, so it never returns a wrong page. A missing
page below is rebuilt in the same way, down to the leaves.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from mta.errors import CorruptPage
from mta.logs.levels.queues import BEFORE_ALL, Levels
from mta.monoids.base import Partial
from mta.pages import NAME_BYTES, NO_NAME, Group, decode, encode, key_of, name_of
from stores import PageStore

#: The largest number of combinations to try: failed writers leave few pages.
_MOST_WAYS = 256
_NAME = re.compile(f"[0-9a-f]{{{2 * NAME_BYTES}}}")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A candidate for an element, and the pages to write for it."""

    aggregate: Partial
    last_time: int | None
    name: bytes
    pages: dict[str, bytes]


class Rebuilder:
    """Rebuilds pages of one window. Lists each level once."""

    def __init__(self, window: str, levels: Levels, store: PageStore) -> None:
        self._window, self._levels, self._store = window, levels, store
        self._listed: dict[int, dict[int, list[bytes]]] = {}

    def rebuild(self, level: int, number: int, name: bytes) -> dict[str, bytes] | None:
        """Return the page of this name and the missing pages below it; None if impossible.

        One listing per level below, and one read of each page below. Leaves cannot be rebuilt.
        """
        for thorough in (False, True) if level else ():
            for candidate in self._ways(level, number, thorough):
                if candidate.name == name:
                    return candidate.pages
        return None

    def _ways(self, level: int, number: int, thorough: bool) -> Iterator[_Candidate]:
        """Yield each combination of the pages below as a page; ``thorough`` also rebuilds those."""
        first, arity = number * self._levels.arity, self._levels.arity
        below = self._stored(level - 1, range(first, first + arity))
        choices = [
            found if found and not thorough else self._with_others(found, level - 1, at, thorough)
            for at, found in below.items()
        ]
        for chosen in islice(product(*choices), _MOST_WAYS):
            yield self._joined(level, number, chosen)

    def _with_others(
        self, found: list[_Candidate], level: int, number: int, thorough: bool
    ) -> list[_Candidate]:
        """Return the candidates for an element: the existing pages, and rebuilt pages."""
        there = {candidate.name for candidate in found}
        ways = self._ways(level, number, thorough) if level else ()
        found = found + [candidate for candidate in ways if candidate.name not in there]
        if (number + 1) * self._levels.span(level + 1) <= self._levels.swept:
            # The events of the element may have been evicted before its level was created.
            found.append(_Candidate(self._levels.monoid.identity, BEFORE_ALL, NO_NAME, {}))
        return found

    def _stored(self, level: int, numbers: range) -> dict[int, list[_Candidate]]:
        """Return the undamaged stored pages of each of these groups. One store call."""
        names = self._names(level)
        places = [(level, number, name) for number in numbers for name in names[number]]
        keys = [key_of(self._window, *place) for place in places]
        found: dict[int, list[_Candidate]] = {number: [] for number in numbers}
        for (_, number, name), data in zip(places, self._store.get_many(keys), strict=True):
            layout = self._levels.layout_of(level)
            try:
                group = decode(data or b"", self._window, level, number, name, layout)
            except CorruptPage:
                continue
            if group.count == self._levels.arity_of(level):
                found[number].append(self._of(level, group, name, {}))
        return found

    def _names(self, level: int) -> dict[int, list[bytes]]:
        """Return the names of the level's stored pages, by group. One listing, on first use."""
        if level not in self._listed:
            names: dict[int, list[bytes]] = defaultdict(list)
            for key in self._store.keys(f"{self._window}/{level}/"):
                number, _, name = key.split("/", 2)[2].partition("/")
                if number.isdecimal() and _NAME.fullmatch(name):
                    names[int(number)].append(bytes.fromhex(name))
            self._listed[level] = names
        return self._listed[level]

    def _of(self, level: int, group: Group, name: bytes, pages: dict[str, bytes]) -> _Candidate:
        last = None if group.times is None else int(group.times[-1])
        return _Candidate(self._levels.fold(level, group, 0, group.count), last, name, pages)

    def _joined(self, level: int, number: int, chosen: tuple[_Candidate, ...]) -> _Candidate:
        """Return the inner page over the chosen candidates."""
        levels, schema = self._levels, self._levels.monoid.partials
        rows = schema.new(len(chosen))
        for index, candidate in enumerate(chosen):
            schema.put(rows, index, candidate.aggregate)
        lasts = [candidate.last_time for candidate in chosen]
        times = np.array(lasts, "<i8") if levels.timed else None
        group = Group(rows, times, [candidate.name for candidate in chosen], len(chosen))
        data = encode(self._window, level, number, group, levels.layout_of(level))
        name = name_of(data)
        pages = {key: new for candidate in chosen for key, new in candidate.pages.items()}
        pages[key_of(self._window, level, number, name)] = data
        return self._of(level, group, name, pages)
