"""Windows that are declared in a file of TOML: each error names the file and the line.

    [frames]
    minute = "1 minute"                      # a duration, or a number of events

    [aggregations]
    spent = ["amount", "sum"]                # a column, or several, and an aggregation
    requests = "count"

The other settings are those of the program that reads the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from mta.errors import WindowStoreError
from mta.frames.base import Frame
from mta.frames.shorthand import frame_of
from mta.keyed.windows import KeyedWindows
from mta.monoids.product import Product, pairs_of
from mta.times import to_duration

#: The types of values, and what monoids call them.
VALUE_TYPES: dict[str, Any] = {"float": None, "int": "int64", "bool": "bool", "text": str}
SAMPLES: dict[str, Any] = {"float": 1.0, "int": 1, "bool": True, "text": "a"}
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")


class InvalidDeclaration(WindowStoreError, ValueError):
    """A file does not declare windows: correct the line that the message names."""


class SettingsFile:
    """The settings of a file.

    All methods raise InvalidDeclaration; the constructor also raises OSError for a file that cannot
    be read.
    """

    def __init__(self, path: Path) -> None:
        self._file, data = str(path), path.read_bytes()
        self._lines = data.decode(errors="replace").splitlines()
        try:
            self.given = tomllib.loads(data.decode())
        except ValueError as error:  # also of bytes that are not UTF-8
            found = re.search(r"line (\d+)", str(error))
            line = found[1] if found else len(self._lines)
            raise InvalidDeclaration(f"{path}:{line}: this is not TOML: {error}") from None

    def read(self, kind: Any, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
        """Return the fields of a dataclass that are given, and those without a default.

        Each is as its reader returns it for its name; a field without a reader is text.
        """
        known = {
            each.name: each.default is each.default_factory is MISSING for each in fields(kind)
        }
        for unknown in self.given.keys() - known.keys():
            close = get_close_matches(unknown, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else f": {', '.join(sorted(known))}"
            self.fail(unknown, f"there is no setting {unknown!r}{hint}")
        return {
            name: readers.get(name, self.text)(name)
            for name, is_required in known.items()
            if is_required or name in self.given
        }

    def text(self, name: str, form: str = ".+", what: str = "text") -> str:
        """Return text that matches a regular expression."""
        found = self.given.get(name)
        if not isinstance(found, str) or not re.fullmatch(form, found):
            self.fail(name, f"{name} is {what}, not {found!r}" if found else f"give {name}: {what}")
        return found

    def column(self, name: str) -> str:
        """Return the name of a column."""
        return self.text(name, COLUMN.pattern, "the name of a column")

    def whole(self, name: str, most: int) -> int:
        """Return a whole number from 1 to ``most``."""
        found = self.given[name]
        if type(found) is not int or not 1 <= found <= most:
            self.fail(name, f"{name} is a whole number from 1 to {most}, not {found!r}")
        return found

    def duration(self, name: str) -> int:
        """Return a duration in microseconds."""
        try:
            return to_duration(self.given[name], name, 0)
        except (ValueError, TypeError) as error:
            self.fail(name, f"{name}: {error}")

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of several words."""
        if self.given.get(name) not in choices:
            self.fail(name, f"{name} is {' or '.join(choices)}, not {self.given.get(name)!r}")
        return str(self.given[name])

    def table(self, name: str) -> dict[str, Any]:
        """Return a table; without it, an empty one."""
        found = self.given.get(name, {})
        if not isinstance(found, dict):
            self.fail(name, f"{name} is a table, [{name}]")
        return found

    def frames(self, _: str = "frames") -> dict[str, Frame]:
        """Return the frames by name; at least one."""
        frames = {name: self._frame(name, size) for name, size in self.table("frames").items()}
        return frames or self.fail("frames", 'declare a frame, such as day = "1 day"')

    def aggregations(self, type_of: Callable[[Any], str]) -> Product:
        """Return the aggregations; ``type_of`` returns a column's type, or raises ValueError."""
        pairs = {
            alias: self.checked(alias, lambda: _aggregation(alias, given, type_of))  # noqa: B023
            for alias, given in self.table("aggregations").items()
        }
        if not pairs:
            self.fail("aggregations", 'declare an aggregation, such as spent = ["amount", "sum"]')
        return self.checked("aggregations", lambda: Product(pairs))  # type: ignore[no-any-return]

    def checked(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what a function returns; what it refuses is a mistake in a setting."""
        try:
            return make()
        except (ValueError, TypeError, NotImplementedError) as error:
            self.fail(name, str(error))

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise the error for a setting, with its line; of the first line if it is missing."""
        setting = re.compile(rf"""^\s*(\[{re.escape(name)}\]|["']?{re.escape(name)}["']?\s*[=.])""")
        inner = re.compile(rf"""[{{,]\s*["']?{re.escape(name)}["']?\s*=""")
        for form in (setting, inner):
            for number, line in enumerate(self._lines, 1):
                if form.search(line):
                    raise InvalidDeclaration(f"{self._file}:{number}: {problem}")
        raise InvalidDeclaration(f"{self._file}:1: {problem}")

    def _frame(self, name: str, size: Any) -> Frame:
        if not COLUMN.fullmatch(name):
            self.fail(name, "the name of a frame has letters, digits and _")
        if not isinstance(size, (int, str)) or isinstance(size, bool):
            self.fail(name, f"a frame is a duration or a number of events, not {size!r}")
        return self.checked(name, lambda: frame_of(size))  # type: ignore[no-any-return]


def _aggregation(alias: str, given: Any, type_of: Callable[[Any], str]) -> Any:
    """Return an aggregation as a pair for Product, after it was tried on one event."""
    *columns, text = given if isinstance(given, list) and given else [given]
    kinds = [type_of(column) for column in columns]
    if not isinstance(text, str):
        raise TypeError('an aggregation is ["amount", "sum"], or "count"')
    pair: Any = (tuple(columns) or None, text)
    samples = {column: [SAMPLES[kind]] for column, kind in zip(columns, kinds, strict=True)}
    try:
        ((read, monoid),) = pairs_of({alias: pair}).values()
        typed = monoid.of_types(*(VALUE_TYPES[kind] for kind in kinds))
        if typed is not monoid:
            pair = read, typed
        KeyedWindows({alias: pair}, "1 second").extend([0], samples or range(1), [0])
    except AttributeError as error:
        raise ValueError(f"the arguments of {text!r} do not suit it: {error}") from error
    return pair
