"""The laws of a monoid, one method each, checked on partials made of examples."""

from __future__ import annotations

import copy
import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from functools import partial as bound
from itertools import islice, pairwise, product
from random import Random
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows, Schema
from mta.errors import LawBroken
from mta.monoids.base import AbstractMonoid, Partial, as_output
from mta.monoids.equality import Scale, same

Equal = Callable[[Any, Any], bool]
#: An address, which differs between processes.
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
#: The numbers of events and runs that triples are drawn from, of groups, and of mutations.
_SINGLES, _RUNS, _GROUPS, _USES = 12, 6, 12, 60


@dataclass(frozen=True)
class Law:
    """A law on given examples; calling it raises LawBroken if it does not hold."""

    name: str
    holds: Callable[[], None]
    of: str

    def __call__(self) -> None:
        try:
            with np.errstate(all="ignore"):  # as inside a window
                self.holds()
        except LawBroken:
            raise
        except Exception as error:
            message = f"{self.of} breaks the law of {self.name}: it raises "
            raise LawBroken(message + f"{type(error).__name__}: {error}", self.name) from error

    def __str__(self) -> str:
        return self.name


def check_monoid(monoid: AbstractMonoid, examples: Sequence[Any], **options: Any) -> None:
    """Check every law of an aggregation. Raises LawBroken.

    Args:
        monoid: The aggregation.
        examples: Values of events, as for ``Window.insert``.
        **options: Keyword arguments of ``monoid_laws``.

    >>> from mta import Max
    >>> from mta.testing import check_monoid
    >>> check_monoid(Max(), [3.0, 1.0, 1.0, -2.0])
    """
    for law in monoid_laws(monoid, examples, **options):
        law()


def monoid_laws(
    monoid: AbstractMonoid,
    examples: Sequence[Any],
    *,
    equal: Equal | None = None,
    pageable: bool = True,
    ordered: bool = False,
    rounds: int = 500,
    seed: int = 0,
) -> list[Law]:
    """Return the laws of an aggregation, to be called one by one.

    Raises ValueError for fewer than two examples.

    Args:
        monoid: The aggregation.
        examples: Values of events, as for ``Window.insert``.
        equal: A function that decides whether two partial results represent the same events, if the
            aggregation's ``same`` is too strict or too lax.
        pageable: Whether partial results can be written to pages.
        ordered: Whether only neighboring parts are combined, for events whose order is fixed.
        rounds: The number of triples to check; all triples if there are fewer.
        seed: The seed of the random choices.

    >>> from mta import Max
    >>> from mta.testing import monoid_laws
    >>> for law in monoid_laws(Max(), [3.0, 1.0, 1.0, -2.0]):
    ...     law()
    """
    if len(examples) < 2:
        raise ValueError("the laws need at least two examples, better ten, some of them equal")
    bench = MonoidBench(monoid, list(examples), equal, ordered, rounds, seed)
    declared = {
        "commutativity": monoid.commutative,
        "inverse": monoid.inverse is not None,
        "selection": monoid.selective,
        "pages": pageable,
    }
    names = [name for name in vars(MonoidBench) if name[0] != "_" and declared.get(name, True)]
    return [Law(name, getattr(bench, name), repr(monoid)) for name in names]


@dataclass
class MonoidBench:
    """A monoid and its examples; every public method checks the law of its name."""

    _monoid: AbstractMonoid
    _examples: list[Any]
    _equal: Equal | None
    _ordered: bool
    _rounds: int
    _seed: int

    # --- examples -------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> list[Row]:
        return [self._monoid.row(value) for value in self._examples]

    @cached_property
    def _lifted(self) -> list[Partial]:
        return [self._monoid.lift(row) for row in self._rows]

    def _naive(self, partials: Sequence[Partial]) -> Partial:
        """Fold with ``combine`` alone; all other folds must agree with this one."""
        return reduce(self._monoid.combine, partials) if partials else self._monoid.identity

    def _runs(self, parts: int, random: Random) -> list[Partial]:
        """Return the folds of ``parts`` consecutive runs of examples; runs may be empty."""
        cuts = sorted(random.randrange(len(self._lifted) + 1) for _ in range(parts + 1))
        return [self._naive(self._lifted[i:j]) for i, j in pairwise(cuts)]

    @cached_property
    def _pool(self) -> list[Partial]:
        random = Random(self._seed)
        count = len(self._lifted)
        picked = sorted(random.sample(range(count), min(_SINGLES, count)))
        singles = [self._lifted[index] for index in picked]
        return [self._monoid.identity, *singles, *self._runs(_RUNS, random)]

    def _tuples(self, size: int) -> Iterator[tuple[Partial, ...]]:
        """Yield tuples of partials: all of them, or ``rounds``; neighbors if ``ordered``."""
        random = Random(self._seed + size)
        if self._ordered:
            yield from (tuple(self._runs(size, random)) for _ in range(self._rounds))
        elif len(self._pool) ** size <= self._rounds:
            yield from product(self._pool, repeat=size)
        else:
            yield from (tuple(random.choices(self._pool, k=size)) for _ in range(self._rounds))

    def _groups(self) -> Iterator[tuple[list[Partial], Partial, Partial]]:
        """Yield groups of neighbors (events, or runs), with the folds before and after each."""
        random, lifted = Random(self._seed), self._lifted
        for size in (0, 1, 2, 3, 5, len(lifted), *[7] * _GROUPS):
            size = min(size, len(lifted))
            start = random.randrange(len(lifted) - size + 1)
            before, after = lifted[:start], lifted[start + size :]
            yield lifted[start : start + size], self._naive(before), self._naive(after)
            left, *runs, right = self._runs(size + 2, random)
            yield runs, left, right

    def _as_rows(self, schema: Schema, items: Sequence[Any]) -> Rows:
        rows = schema.new(len(items))
        for index, item in enumerate(items):
            schema.put(rows, index, item)
        return rows

    def _partial_rows(self, items: Sequence[Partial]) -> Rows:
        return self._as_rows(self._monoid.partials, items)

    # --- verdicts -------------------------------------------------------------------------------

    def _same(self, one: Partial, other: Partial, made_of: Sequence[Partial] = ()) -> bool:
        if self._equal is not None:
            return bool(self._equal(one, other))
        if not _is_comparable(one) and type(self._monoid).same is AbstractMonoid.same:
            raise ValueError(
                f"partials of type {type(one).__name__} cannot be compared; give the type an "
                "__eq__, or the check equal="
            )
        scale = sum(map(Scale.of, made_of), start=Scale())
        return self._monoid.same(one, other, scale if made_of else None)

    def _agree(
        self, law: str, what: str, one: Partial, wanted: str, other: Partial, *example: Any
    ) -> None:
        """Require equal sides, with a tolerance that the example's partials scale."""
        if not self._same(one, other, example):
            raise self._broken(law, what, one, wanted, other, example)

    def _broken(
        self, law: str, what: str, one: Any, wanted: str, other: Any, example: Any
    ) -> LawBroken:
        show = reprlib.Repr()
        show.maxother = show.maxstring = show.maxlong = 200
        letters = zip("abcdefgh", example, strict=False)
        given = ", ".join(f"{letter} = {show.repr(item)}" for letter, item in letters)
        return LawBroken(
            f"{self._monoid!r} breaks the law of {law}: {what} is {show.repr(one)}, but "
            f"{wanted} is {show.repr(other)}" + (f", where {given}" if given else ""),
            law,
            example,
            (one, other),
        )

    # --- the laws -------------------------------------------------------------------------------

    def validity(self) -> None:
        """The examples are valid, and ``invalid`` agrees with ``is_valid``."""
        monoid, rows = self._monoid, self._as_rows(self._monoid.inputs, self._rows)
        mask = monoid.invalid(rows, len(self._rows))
        for index, row in enumerate(self._rows):
            one, many = bool(monoid.is_valid(row)), mask is None or not mask[index]
            if one != many:
                raise self._broken(
                    "validity", "is_valid(a)", one, "that invalid(rows) says", many, (row,)
                )
            if not one:
                raise ValueError(f"{self._monoid!r} does not take the example {row!r}")

    def lift(self) -> None:
        """``lift_rows`` equals ``lift`` row by row."""
        count = len(self._rows)
        rows = self._monoid.lift_rows(self._as_rows(self._monoid.inputs, self._rows), count)
        for index, row in enumerate(self._rows):
            one = self._monoid.partials.at(rows, index)
            if not self._same(one, self._lifted[index]):
                lifted = self._lifted[index]
                raise self._broken("lift", "lift_rows at a", one, "lift(a)", lifted, (row,))

    def identity(self) -> None:
        """Combining a partial with the identity, on either side, returns the partial."""
        combine, identity = self._monoid.combine, self._monoid.identity
        for a in self._pool:
            self._agree("identity", "combine(identity, a)", combine(identity, a), "a", a, a)
            self._agree("identity", "combine(a, identity)", combine(a, identity), "a", a, a)

    def associativity(self) -> None:
        """The grouping of combines makes no difference."""
        combine = self._monoid.combine
        for a, b, c in self._tuples(3):
            one, other = combine(combine(a, b), c), combine(a, combine(b, c))
            sides = "combine(combine(a, b), c)", "combine(a, combine(b, c))"
            self._agree("associativity", sides[0], one, sides[1], other, a, b, c)

    def commutativity(self) -> None:
        """The order of the two sides makes no difference (commutative monoids only)."""
        combine = self._monoid.combine
        for a, b in self._tuples(2):
            one, other = combine(a, b), combine(b, a)
            self._agree("commutativity", "combine(a, b)", one, "combine(b, a)", other, a, b)

    def inverse(self) -> None:
        """``inverse`` removes a partial that was combined on the left (invertible monoids only)."""
        combine, inverse = self._monoid.combine, self._monoid.inverse
        assert inverse is not None
        for a, b in self._tuples(2):
            one = inverse(combine(a, b), a)
            self._agree("inverse", "inverse(combine(a, b), a)", one, "b", b, a, b)

    def selection(self) -> None:
        """The result is one of the two partials (selective monoids only)."""
        for a, b in self._tuples(2):
            one = self._monoid.combine(a, b)
            if not (self._same(one, a) or self._same(one, b)):
                raise self._broken("selection", "combine(a, b)", one, "a or b", b, (a, b))

    def fold(self) -> None:
        """``fold`` equals combining the rows one by one."""
        for group, _, _ in self._groups():
            one = self._monoid.fold(self._partial_rows(group), len(group))
            other = self._naive(group)
            self._agree("fold", f"the fold of {len(group)} rows", one, "combine's", other, *group)

    def prefixes(self) -> None:
        """Each row of ``prefixes`` is the fold of a prefix."""
        for group, left, _ in self._groups():
            scan = self._monoid.prefixes(self._partial_rows(group), len(group), left)
            fold = left
            for index, partial in enumerate(group):
                fold = self._monoid.combine(fold, partial)
                one, parts = self._monoid.partials.at(scan, index), [left, *group[: index + 1]]
                self._agree("prefixes", f"row {index} of them", one, "combine's", fold, *parts)

    def suffixes(self) -> None:
        """Each row of ``suffixes`` is the fold of a suffix; the last row is ``right``."""
        for group, _, right in self._groups():
            scan = self._monoid.suffixes(self._partial_rows(group), len(group), right)
            fold = right
            for index in range(len(group), -1, -1):
                if index < len(group):
                    fold = self._monoid.combine(group[index], fold)
                one, parts = self._monoid.partials.at(scan, index), [right, *group[index:]]
                self._agree("suffixes", f"row {index} of them", one, "combine's", fold, *parts)

    def combine_rows(self) -> None:
        """``combine_rows`` equals ``combine`` row by row; a single row serves for every row."""
        monoid, at = self._monoid, self._monoid.partials.at
        for group, left, right in self._groups():
            count = len(group)
            if not count:
                continue
            rows, ends = self._partial_rows(group), [self._partial_rows([p]) for p in (left, right)]
            by_left = monoid.combine_rows(ends[0], rows, count)
            by_right = monoid.combine_rows(rows, ends[1], count)
            by_both = monoid.combine_rows(by_left, ends[1], count)
            for i, a in enumerate(group):
                sides = [(by_left, (left, a)), (by_right, (a, right)), (by_both, (left, a, right))]
                for found, parts in sides:
                    one, other = at(found, i), self._naive(parts)
                    self._agree("combine_rows", f"row {i}", one, "combine's", other, *parts)

    def lower_rows(self) -> None:
        """``lower_rows`` equals ``lower`` row by row, and outputs are stored unchanged."""
        monoid = self._monoid
        partials = [partial for partial in self._pool[1:] if not self._is_nothing(partial)]
        outputs = monoid.lower_rows(self._partial_rows(partials))
        for index, a in enumerate(partials):
            one, other = monoid.outputs.at(outputs, index), as_output(monoid.lower(a))
            if not same(one, other):
                raise self._broken("lower_rows", "lower_rows at a", one, "lower(a)", other, (a,))

    def _is_nothing(self, partial: Partial) -> bool:
        return self._same(partial, self._monoid.identity)

    def fingerprint(self) -> None:
        """The fingerprint has 16 bytes, equal in every process and after any use."""
        monoid = self._monoid
        described = repr(monoid._identifies())
        if ADDRESS.search(described) or len(monoid.fingerprint) != 16:
            raise LawBroken(
                f"{monoid!r} breaks the law of fingerprint: {described} is "
                "different in every process; give it a name and an identity of plain data",
                "fingerprint",
                described,
            )
        self._naive([monoid.lift(row) for row in self._rows])
        after = repr(monoid._identifies())
        if after != described:
            raise self._broken("fingerprint", "what it is", after, "before", described, ())

    def pages(self) -> None:
        """Values and partials survive a round trip through pages."""
        monoid = self._monoid
        columns: list[tuple[Schema, list[Any], Equal]] = [
            (monoid.inputs, self._rows, same),
            (monoid.partials, self._pool, self._same),
        ]
        for schema, items, equal in columns:
            payloads = schema.dump(self._as_rows(schema, items))
            if not all(type(kind) is str and type(data) is bytes for kind, data in payloads):
                raise self._broken("pages", "dump", payloads, "not pairs of text and bytes", "", ())
            back = schema.load(iter(payloads), len(items))
            for index, a in enumerate(items):
                one = schema.at(back, index)
                if not equal(one, a):
                    raise self._broken("pages", "what comes back", one, "what went in", a, (a,))

    def mutation(self) -> None:
        """No method changes its arguments: partials and rows are shared and reused."""
        monoid, combine = self._monoid, self._monoid.combine
        for row in self._rows:
            self._unchanged("lift", bound(monoid.lift, row), [row], same)
        for a, b in islice(self._tuples(2), _USES):
            self._unchanged("combine", bound(combine, a, b), [a, b, monoid.identity])
            if not self._is_nothing(a):
                self._unchanged("lower", bound(monoid.lower, a), [a])
            if monoid.inverse is not None:
                whole = combine(a, b)
                self._unchanged("inverse", bound(monoid.inverse, whole, a), [whole, a])
        for group, left, right in self._groups():
            rows, count, items = self._partial_rows(group), len(group), [*group, left, right]
            self._unchanged("fold", bound(monoid.fold, rows, count), items)
            self._unchanged("prefixes", bound(monoid.prefixes, rows, count, left), items)
            self._unchanged("suffixes", bound(monoid.suffixes, rows, count, right), items)

    def _unchanged(
        self, name: str, use: Callable[[], Any], items: list[Any], equal: Equal | None = None
    ) -> None:
        before = [self._copy(item) for item in items]
        use()
        for after, was in zip(items, before, strict=True):
            if not (equal(after, was) if equal else self._same(after, was)):
                raise self._broken("mutation", f"a after {name}", after, "before it", was, (was,))

    def _copy(self, item: Any) -> Any:
        try:
            return copy.deepcopy(item)
        except Exception:  # a library's sketch can only be copied through its bytes
            schema = self._monoid.partials
            return schema.at(schema.load(iter(schema.dump(schema.one(item))), 1), 0)


def _is_comparable(value: Any) -> bool:
    compare: Any = type(value).__eq__
    return value is None or compare is not object.__eq__
