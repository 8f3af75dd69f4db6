"""How windows are made, as plain data: their aggregations, frames and settings.

Snapshots have a ``Recipe``, so that a snapshot and its store are enough to restore windows.
Published records have the ``Description`` of each aggregation and frame, so that any process can
read them.

    recipe      = [description, array of recipe of a frame or nil, settings], and types if any
    settings    = map of name to value, for each setting that is not the default
    types       = map of column to the name of the Python type of its values, for each column of
                  objects whose type aggregations took from the first values
                  (``mta.monoids.following``); a column without a name has the name ""
    description = [name, 16-byte fingerprint, recipe or nil, parts or nil]
    parts       = array of [alias, array of column, description]

``mta.recipes`` has the format of recipes of objects and of values. The frames are those of the
snapshot, in its order. A setting that is an object of the user, such as a clock, has the value nil.

>>> from mta.aggregations import Max, Product
>>> written = described(Product({"peak": ("watts", Max("int64"))}))
>>> described_again(written).name
'Product(peak=Max[int64](watts))'

A ``Description`` always has the name and the fingerprint. An aggregation that is made of functions
has no recipe, so the reader must be given the object.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from mta import aggregations, frames
from mta.errors import CorruptSnapshot, SnapshotMismatch
from mta.frames.base import Both, Frame
from mta.frames.calendar import CalendarWindow
from mta.monoids.base import AbstractMonoid
from mta.monoids.nulls import CountValues, SkipNulls
from mta.monoids.product import Aggregations, Product, column_names, pairs_of
from mta.recipes import NoRecipe, Recorded, from_plain, rebuilt, recipe_of, to_plain

_Made = TypeVar("_Made", AbstractMonoid, Frame)
#: What a recipe may call: the classes of this package that take plain data.
CLASSES: dict[str, Callable[..., Any]] = {
    name: kind
    for module in (aggregations, frames)
    for name, kind in vars(module).items()
    if name in module.__all__ and isinstance(kind, type) and issubclass(kind, Recorded)
} | {
    "Both": Both, "CalendarWindow.to_date": CalendarWindow.to_date,
    "SkipNulls": SkipNulls, "CountValues": CountValues,
}  # fmt: skip
for _base in ("AbstractMonoid", "Frame", "ColumnarMonoid", "Monoid", "CustomFrame"):
    del CLASSES[_base]
del CLASSES["SummaryMonoid"]


class Description(NamedTuple):
    """A monoid or a frame in a record."""

    name: str
    fingerprint: bytes
    recipe: list[Any] | None
    """None if it cannot be rebuilt from plain data."""
    parts: list[tuple[str, list[str], Description]] | None = None
    """For a Product without a recipe: alias, columns and description of each aggregation."""


def described(made: AbstractMonoid | Frame) -> Description:
    """Return the description of a monoid or a frame."""
    name = made.name if isinstance(made, AbstractMonoid) else made.describe()
    recipe = parts = None
    try:
        recipe = recipe_of(made, CLASSES)
    except NoRecipe:
        if type(made) is Product:
            parts = [
                (alias, list(column_names(columns)), described(monoid))
                for alias, (columns, monoid) in made.aggregations.items()
            ]
    return Description(name, made.fingerprint, recipe, parts)


def described_again(
    description: Description,
    given: AbstractMonoid | Aggregations | None = None,
    call: str = "open_published",
) -> AbstractMonoid:
    """Return the monoid of a description.

    ``given`` is the monoid itself, or the aggregations of a Product that have no recipe; ``call``
    takes them from the user. Raises SnapshotMismatch if one is missing or differs from its
    description, and CorruptSnapshot for an invalid recipe.
    """
    if isinstance(given, AbstractMonoid):
        return _same(given, description)
    own = {} if given is None else pairs_of(given)
    if description.recipe is not None and not own:
        return _monoid(description)
    if description.parts is None and description.recipe is None:
        raise SnapshotMismatch(
            f"the aggregation {description.name} is made of functions, which are not saved: "
            f"give it, as {call}(..., aggregations=...)"
        )
    found = _parts_of(description)
    missing = [alias for alias, (_, monoid) in found.items() if monoid is None and alias not in own]
    if missing:
        raise SnapshotMismatch(
            f"the aggregations {', '.join(missing)} are made of functions, which are not "
            f"saved: give them, as {call}(..., aggregations={{{missing[0]!r}: ...}})"
        )
    unknown = own.keys() - found.keys()
    if unknown:
        raise SnapshotMismatch(
            f"no aggregations {sorted(unknown)} are published; there are {list(found)}"
        )
    known = {a: (columns, m) for a, (columns, m) in found.items() if m is not None}
    return _same(Product({alias: (known | own)[alias] for alias in found}), description)


def frame_again(
    description: Description, given: Frame | None = None, call: str = "open_published"
) -> Frame:
    """Return the frame of a description, or ``given``; raises the same errors as for monoids."""
    if given is not None:
        return _same(given, description)
    if description.recipe is None:
        raise SnapshotMismatch(
            f"the frame {description.name} is made of functions, which are not saved: give it, "
            f"as {call}(..., window=...)"
        )
    found: Frame = _rebuilt(description, Frame, "is no window")
    return found


def dump(description: Description) -> list[Any]:
    """Return a description as plain data."""
    name, fingerprint, recipe, parts = description
    listed = None if parts is None else [[alias, cols, dump(part)] for alias, cols, part in parts]
    return [name, fingerprint, recipe, listed]


def load(data: Any, depth: int = 0) -> Description:
    """Return the description in plain data. Raises ValueError for other data."""
    match data:
        case [str(name), bytes(fingerprint), (list() | None) as recipe, (list() | None) as parts]:
            if len(fingerprint) == 16 and depth < 4:
                found = None if parts is None else [_part(each, depth) for each in parts]
                return Description(name, fingerprint, recipe, found)
    raise ValueError("a description has the wrong types")


def _part(data: Any, depth: int) -> tuple[str, list[str], Description]:
    match data:
        case [str(alias), list(columns), part] if all(type(each) is str for each in columns):
            return alias, columns, load(part, depth + 1)
    raise ValueError("a description of an aggregation has the wrong types")


def _parts_of(description: Description) -> dict[str, tuple[Any, AbstractMonoid | None]]:
    """Return the columns of each aggregation of a Product, and its monoid if it has a recipe."""
    if description.recipe is not None:
        whole = _monoid(description)
        if not whole.names_results:
            raise SnapshotMismatch(f"{whole.name} is one aggregation without a name: give a monoid")
        return dict(whole.by_alias())
    found: dict[str, tuple[Any, AbstractMonoid | None]] = {}
    for alias, columns, part in description.parts or []:
        known = None if part.recipe is None and part.parts is None else described_again(part)
        found[alias] = (columns[0] if len(columns) == 1 else columns or None), known
    return found


def _monoid(description: Description) -> AbstractMonoid:
    found: AbstractMonoid = _rebuilt(description, AbstractMonoid, "aggregates nothing")
    return found


def _rebuilt(description: Description, kind: Any, otherwise: str) -> Any:
    try:
        found = rebuilt(description.recipe, CLASSES)
    except Exception as error:  # a constructor may raise anything for arguments of any kind
        raise CorruptSnapshot(f"the recipe of {description.name!r}: {error}") from error
    if not isinstance(found, kind):
        raise CorruptSnapshot(f"the recipe of {description.name!r} {otherwise}")
    return _same(found, description)


def _same(found: _Made, description: Description) -> _Made:
    if found.fingerprint != description.fingerprint:
        raise SnapshotMismatch(
            f"it is {description.name} that was saved, not {found!r}: give what the windows use, "
            "with the types of its columns, such as Max('int64'), and use the same release of this "
            "package"
        )
    return found


# --- recipes --------------------------------------------------------------------------------------


class Recipe(NamedTuple):
    """How the windows of a snapshot were made."""

    aggregation: Description
    frames: list[list[Any] | None]
    """The recipe of each frame, in the order of the snapshot; None for one of functions."""
    settings: dict[str, Any]
    """As plain data, those that are not the default."""
    types: dict[str, str]
    """The type of each column of objects that aggregations took from its first values."""

    @classmethod
    def of(
        cls,
        aggregation: AbstractMonoid,
        frames: Iterable[Frame],
        settings: Mapping[str, Any],
        types: Mapping[str, str],
    ) -> Recipe:
        """Return the recipe of windows, with their settings and the types of columns by name."""
        plain = {name: _plain_or_none(value) for name, value in settings.items()}
        recipes = [described(each).recipe for each in frames]
        return cls(described(aggregation), recipes, plain, dict(types))

    def dump(self) -> list[Any]:
        types = [self.types] if self.types else []
        return [dump(self.aggregation), self.frames, self.settings, *types]

    def made_aggregation(self) -> AbstractMonoid:
        """Return the aggregation. Raises SnapshotMismatch if it has functions of the user."""
        return described_again(self.aggregation, call="restore")

    def made_frames(self, windows: Iterable[tuple[str, str, bytes]]) -> dict[str, Frame]:
        """Return the frame of each window (name, text, fingerprint) of the snapshot."""
        listed = list(windows)
        if len(listed) != len(self.frames):
            raise CorruptSnapshot("the snapshot has other windows than its recipe has frames")
        return {
            name: frame_again(Description(text, mark, recipe), call="restore")
            for (name, text, mark), recipe in zip(listed, self.frames, strict=True)
        }

    def made_settings(self, given: Container[str]) -> dict[str, Any]:
        """Return the settings by name. Raises SnapshotMismatch for an object of the user.

        Objects that are ``given`` need not be saved.
        """
        found = {}
        for name, value in self.settings.items():
            if value is None and name in given:
                continue
            if value is None:
                raise SnapshotMismatch(
                    f"the windows have {name}= of yours, which is not saved: give it again, as "
                    f"restore(..., {name}=...)"
                )
            try:
                found[name] = from_plain(value, CLASSES)
            except Exception as error:  # as for other recipes
                raise CorruptSnapshot(f"the setting {name!r}: {error}") from error
        return found


def load_recipe(data: Any) -> Recipe:
    """Return the recipe in plain data. Raises ValueError for other data."""
    match data:
        case [aggregation, list(frames), dict(settings), *rest] if len(rest) < 2:
            types = rest[0] if rest else {}
            is_text = type(types) is dict and all(
                type(each) is str for each in (*settings, *types, *types.values())
            )
            if is_text and all(each is None or type(each) is list for each in frames):
                return Recipe(load(aggregation), frames, settings, types)
    raise ValueError("a recipe has the wrong types")


def _plain_or_none(value: Any) -> Any:
    """Return a setting as plain data; None for an object of the user."""
    try:
        return to_plain(value, CLASSES)
    except NoRecipe:
        return None
