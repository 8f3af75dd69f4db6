"""The law checker: ready-made monoids and frames pass, broken ones are caught by name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from mta import (
    ArgMax,
    ArgMin,
    Collect,
    Count,
    CountWindow,
    First,
    Last,
    Max,
    Mean,
    Median,
    Min,
    Monoid,
    Product,
    Quantile,
    SampleStdDev,
    Sum,
    TimeWindow,
    aggregations,
)
from mta.aggregations import (
    AbstractMonoid,
    BloomFilter,
    CheckedSum,
    CollectDistinct,
    ColumnarMonoid,
    CountMin,
    DistinctCount,
    FirstText,
    FrequentItems,
    GeometricMean,
    Increase,
    KLLQuantiles,
    Lag,
    Largest,
    LastText,
    LongestIncreasingRun,
    MaxCount,
    MaxText,
    MinCount,
    MinText,
    Mode,
    MomentSketch,
    Multiply,
    NthValue,
    PopulationKurtosis,
    PopulationStdDev,
    Rank,
    SampleSkewness,
    SampleVariance,
    SumDistinct,
    SummaryMonoid,
)
from mta.columns.schemas import Decimals, Objects
from mta.errors import WindowStoreError
from mta.frames import BoundWindow, CustomFrame, Frame, SinceLongestRun, SinceMax
from mta.testing import Law, LawBroken, check_frame, check_monoid, frame_laws, monoid_laws
from tests.support.aggregations import CASES, TIMED
from tests.support.sampling import some

VALUES = [3.0, -1.0, -1.0, 0.0, 2.5, 1e9, 1e9 + 1, -0.0, 7.0, math.inf, 1e-300, 4.0]
FINITE = [value for value in VALUES if math.isfinite(value)]
POSITIVE = [abs(value) for value in FINITE]
PAIRS = list(zip(VALUES, map(float, range(len(VALUES))), strict=True))
WORDS = ["a", "b", "", "a", "cc", "a", "é", "b", "dd", "a"]
DAYS = np.arange("2024-01-01", "2024-01-13", dtype="M8[D]").astype("M8[us]")

READY: dict[str, tuple[Callable[[], AbstractMonoid], list[Any]]] = {
    **{
        kind.__name__: (kind, VALUES)
        for kind in (
            Count, Min, Max, MinCount, MaxCount, First, Last, Collect, CollectDistinct,
        )
    },
    # An infinite mean has no deviation; whether it is infinite or NaN then depends on the order.
    # Infinities cannot be taken away from a sum.
    **{kind.__name__: (kind, FINITE) for kind in (Sum, Mean, SampleStdDev, PopulationStdDev)},
    **{kind.__name__: (kind, PAIRS) for kind in (ArgMin, ArgMax, LongestIncreasingRun)},
    "GeometricMean": (GeometricMean, [*POSITIVE, math.inf]),
    "Sum[int64]": (lambda: Sum("int64"), [1, 2**62, -5, 0, 7]),
    "Max[int64]": (lambda: Max("int64"), [1, 2**62 + 1, -5, 0, 7]),
    "ArgMax[time]": (lambda: ArgMax("M8[us]"), list(zip(FINITE, DAYS, strict=False))),
    "Run[time]": (lambda: LongestIncreasingRun("M8[us]"), list(zip(FINITE, DAYS, strict=False))),
    "Run[int64]": (lambda: LongestIncreasingRun("i8"), list(zip(FINITE, range(9), strict=False))),
    "MomentSketch": (MomentSketch, FINITE),
    "MomentSketch of positive values": (lambda: MomentSketch([0.1, 0.9], k=6), POSITIVE[4:]),
    "BloomFilter": (lambda: BloomFilter(100), [*WORDS, 1, 2.5, (1, "x"), b"y"]),
    "DistinctCount": (DistinctCount, [*WORDS, 1, 1.5, True, -(2**63)]),
    "DistinctCount of many": (lambda: DistinctCount(7), list(range(300))),
    "KLLQuantiles": (KLLQuantiles, VALUES),
    "KLLQuantiles of many": (lambda: KLLQuantiles([0.0, 0.5, 1.0], k=8), list(range(100))),
    "FrequentItems": (FrequentItems, WORDS),
    "FrequentItems of integers": (lambda: FrequentItems(0.2, of=int), [1, 2, 2, -7, 2**70]),
    "FrequentItems of floats": (lambda: FrequentItems(0.2, of=float), [1, 2.5, -0.0, 0.0]),
    "FrequentItems of many": (lambda: FrequentItems(0.5, lg_size=3), [str(i) for i in range(60)]),
    "CountMin": (CountMin, [*WORDS, 1, 2.5, -0.0, 2**70]),
    "CountMin of few counters": (lambda: CountMin(0.9, 0.5), list(range(60))),
    "Product": (
        lambda: Product({"peak": ("x", Max()), "at": (("x", "y"), ArgMax()), "n": Count()}),
        [{"x": x, "y": y} for x, y in PAIRS],
    ),
    "Product of sketches": (
        lambda: Product({"p": ("x", KLLQuantiles()), "n": ("x", DistinctCount()), "m": Count()}),
        [{"x": x} for x in VALUES],
    ),
    "joined": (lambda: Monoid("", lambda a, b: a + b, name="joined"), WORDS),
    **{name: (case.make, case.events[:12]) for name, case in CASES.items()},
    **{
        f"{make().name} of any numbers": (make, FINITE)
        for make in (
            SampleVariance, SampleSkewness, PopulationKurtosis, Multiply, Median, Rank, Increase,
            lambda: Quantile([0.0, 0.9, 1.0], "discrete"), lambda: Mode("f8"), SumDistinct,
            lambda: Largest(3), lambda: Lag(2), lambda: NthValue(3),
        )
    },
    "SumDistinct of decimals": (
        lambda: SumDistinct(Decimals(2)), [Decimal("1.50"), 2, Decimal("1.50"), Decimal("-0.01")],
    ),
    "Mode of times": (lambda: Mode("M8[us]"), DAYS),
    "Lag of decimals": (lambda: Lag(1, Decimals(1)), [Decimal("1.5"), 2, Decimal("-0.1"), 0]),
}  # fmt: skip
#: Aggregations whose events are in order, of which only neighbours can be combined.
ORDERED = {name for name, case in CASES.items() if case.events is TIMED} | {"Increase"}


@pytest.mark.parametrize("rounds", some([10, 400], by_default=1))
@pytest.mark.parametrize("name", READY)
def test_every_ready_made_monoid_keeps_the_laws(name: str, rounds: int) -> None:
    make, examples = READY[name]
    check_monoid(make(), examples, rounds=rounds, ordered=name in ORDERED)


def test_every_ready_made_monoid_is_checked() -> None:
    checked = {type(make()) for make, _ in READY.values()}
    bases = {ColumnarMonoid, SummaryMonoid}
    kinds = {
        kind
        for name in aggregations.__all__
        if isinstance(kind := getattr(aggregations, name), type)
    }
    others = {CheckedSum, FirstText, LastText, MaxText, MinText}
    unchecked = {kind for kind in kinds if issubclass(kind, AbstractMonoid)} - checked
    assert {kind.__name__ for kind in unchecked - bases - others} == {"AbstractMonoid"}


@pytest.mark.parametrize("law", monoid_laws(Mean(), [1.0, 2.0, 5.0]), ids=str)
def test_each_law_can_be_a_test_of_its_own(law: Law) -> None:
    law()


def test_the_laws_that_are_declared_are_checked() -> None:
    plain = {str(law) for law in monoid_laws(Collect(), [1, 2])}
    assert {str(law) for law in monoid_laws(Sum(), [1, 2])} - plain == {"commutativity", "inverse"}
    assert "pages" in plain
    assert "pages" not in {str(law) for law in monoid_laws(Collect(), [1, 2], pageable=False)}
    assert {"selection"} <= {str(law) for law in monoid_laws(Max(), [1, 2])}


# --- broken monoids, each caught by the law it breaks -------------------------------------------


def columnar(name: str, **layout: Any) -> ColumnarMonoid:
    return ColumnarMonoid(name, **{"partials": "f8", "identity": 0.0, **layout})


class WrongPart(ColumnarMonoid):
    """A sum of which one of the whole-group methods is wrong."""

    def __init__(self, part: str) -> None:
        super().__init__(part, partials="f8", identity=0.0, ufuncs=(np.add,))
        self.part = part

    def spoiled(self, part: str, rows: Any) -> Any:
        return rows if part != self.part else rows + (np.arange(np.size(rows)) >= 2)

    def lift_rows(self, rows: Any, count: int) -> Any:
        return self.spoiled("lift", super().lift_rows(rows, count))

    def fold(self, partials: Any, count: int) -> Any:
        fold = super().fold(partials, count)
        return fold + 1 if self.part == "fold" and count > 2 else fold

    def prefixes(self, partials: Any, count: int, left: Any) -> Any:
        return self.spoiled("prefixes", super().prefixes(partials, count, left))

    def suffixes(self, partials: Any, count: int, right: Any) -> Any:
        return self.spoiled("suffixes", super().suffixes(partials, count, right))

    def combine_rows(self, left: Any, right: Any, count: int) -> Any:
        return self.spoiled("combine_rows", super().combine_rows(left, right, count))

    def lower_rows(self, partials: Any) -> Any:
        return self.spoiled("lower_rows", super().lower_rows(partials))

    def invalid(self, rows: Any, count: int) -> np.ndarray | None:
        return rows == 2.5 if self.part == "validity" else None


class Forgetful(Objects):
    """A column that loses the fractions of what goes into a page."""

    def dump(self, rows: Any) -> Any:
        return super().dump([int(row) for row in rows])


def through(schema: Any) -> Monoid:
    monoid = Monoid(0.0, lambda a, b: a + b, name="lossy")
    monoid.partials = schema
    return monoid


def appended(left: list[Any], right: list[Any]) -> list[Any]:
    left.extend(right)
    return left


def drained(rows: list[Any]) -> int:
    total = 0
    while rows:
        total += rows.pop()
    return total


def merged_counts(left: dict[Any, int], right: dict[Any, int]) -> dict[Any, int]:
    for key, count in right.items():
        left[key] = left.get(key, 0) + count
    return left


def counted_uses() -> Monoid:
    """Its name changes with use."""
    monoid = Monoid(0.0, lambda a, b: a + b, lift=lambda v: used(v), name="uses")

    def used(value: float) -> float:
        monoid.name += "."
        return value

    return monoid


def plain(identity: Any, combine: Any, lift: Any = None, name: str = "m", **more: Any) -> Any:
    """A function that makes a monoid of plain functions."""
    given = {} if lift is None else {"lift": lift}
    return lambda: Monoid(identity, combine, name=name, **given, **more)


BROKEN: dict[str, tuple[str, Callable[[], AbstractMonoid], list[Any]]] = {
    # A published reference implementation had this for years: 0 in place of 1, or of log 1.
    "a geometric mean whose identity is the product 0": (
        "identity",
        lambda: columnar("Geometric", partials=("f8", "f8"), identity=(0.0, 0.0),
                         lift=lambda v: (v, np.ones_like(v)), ufuncs=(np.multiply, np.add),
                         lower=lambda p: p[0] ** (1 / p[1])),
        [1.0, 2.0, 8.0],
    ),
    "a maximum whose identity is 0": ("identity", plain(0.0, max), [-1.0, -2.0, 3.0]),
    "a mean of means": (
        "associativity",
        plain(None, lambda a, b: b if a is None else a if b is None else (a + b) / 2),
        [1.0, 2.0, 5.0],
    ),
    "a difference": ("identity", plain(0.0, lambda a, b: a - b), [1.0, 2.0]),
    "a sum that forgets small parts": (
        "associativity", plain(0.0, lambda a, b: a + b if a + b > 2 or not a or not b else 0.0),
        [1.0, 1.0, 5.0, 0.5],
    ),
    "a list that grows in place": ("mutation", plain([], appended, lambda v: [v]), [1, 2, 3]),
    "counts that are merged into the left side": (
        "mutation", plain({}, merged_counts, lambda v: {v: 1}), ["a", "b", "a"],
    ),
    "an array that is added to in place": (
        "mutation",
        plain([0, 0], lambda a, b: [a[0] + b[0], a[1] + b[1]], lambda v: [v, 1], lower=drained),
        [1, 2, 3],
    ),
    "a lift that changes the event": (
        "mutation", plain(0, lambda a, b: a + b, lambda v: v.pop() if v else 0),
        [[1, 2], [3], [4, 5, 6]],
    ),
    "partials that are sets": (
        "pages", plain(frozenset(), lambda a, b: a | b, lambda v: frozenset([v])), [1, 2, 2, 3],
    ),
    "a page that loses fractions": ("pages", lambda: through(Forgetful()), [1.0, 2.5]),
    "texts that are said to be commutative": (
        "commutativity", plain("", lambda a, b: a + b, commutative=True), ["a", "b"],
    ),
    "a last one that is said to be commutative": (
        "commutativity", plain(None, lambda a, b: a if b is None else b, commutative=True), [1, 2],
    ),
    "an inverse that takes away the wrong side": (
        "inverse", plain(0, lambda a, b: a + b, inverse=lambda whole, part: part - whole), [1, 2],
    ),
    "a maximum with an inverse": (
        "inverse", plain(-1, max, inverse=lambda whole, part: whole), [1, 2, 3],
    ),
    "a sum that is said to be selective": (
        "selection", plain(0, lambda a, b: a + b, selective=True), [1, 2, 3],
    ),
    **{
        f"a wrong {part}": (part, lambda part=part: WrongPart(part), [1.0, 2.5, 3.0, 4.0, 6.0])
        for part in (
            "lift", "fold", "prefixes", "suffixes", "combine_rows", "lower_rows", "validity",
        )
    },
    "a columnar combine that is not what its ufunc is": (
        "fold", lambda: OtherUfunc("other", partials="f8", identity=0.0, ufuncs=(np.add,)),
        [1.0, 2.0, 3.0],
    ),
    "a combine that raises": ("identity", plain(None, lambda a, b: a + b), [1, 2]),
    "a name with an address": (
        "fingerprint", lambda: Monoid(0, lambda a, b: a + b, name=f"sum {object()}"), [1, 2],
    ),
    "a name that changes with use": ("fingerprint", counted_uses, [1.0, 2.0]),
}  # fmt: skip


class OtherUfunc(ColumnarMonoid):
    """Scans by adding, combines by the larger one."""

    def __init__(self, name: str, **layout: Any) -> None:
        super().__init__(name, **layout)
        self.combine = np.maximum


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_monoid_is_caught(name: str) -> None:
    law, make, examples = BROKEN[name]
    broken = {str(each): each for each in monoid_laws(make(), examples)}
    with pytest.raises(LawBroken, match=f"law of {law}"):
        broken[law]()
    with pytest.raises(LawBroken):
        check_monoid(make(), examples)


def test_a_report_names_the_law_the_example_and_both_sides() -> None:
    with pytest.raises(LawBroken) as raised:
        check_monoid(Monoid(0, max, name="largest"), [-3, -3])
    error = raised.value
    assert (error.law, error.example, error.sides) == ("identity", (-3,), (0, -3))
    assert str(error) == (
        "largest breaks the law of identity: combine(identity, a) is 0, but a is -3, where a = -3"
    )
    assert isinstance(error, AssertionError) and isinstance(error, WindowStoreError)


def test_a_report_of_large_partials_is_short() -> None:
    broken = Monoid("", lambda a, b: b + a * 2, lift=lambda v: v * 500, name="long")
    with pytest.raises(LawBroken) as raised:
        check_monoid(broken, ["a", "b"])
    assert len(str(raised.value)) < 1500


def test_numbers_that_cancel_are_no_broken_law() -> None:
    check_monoid(Sum(), [1e16, -1e16, 1.0, 3.0])
    check_monoid(Mean(), [1e300, 1.0, -1e300])
    with pytest.raises(LawBroken, match="inverse"):  # of one column only: the other one is wrong
        check_monoid(
            columnar("Two", partials=("f8", "f8"), identity=(0.0, 0.0), lift=lambda v: (v, v * 2),
                     ufuncs=(np.add, np.add), inverse=lambda w, p: (w[0] - p[0], w[1]),
                     lower=lambda p: p[0]),
            [1e16, 1.0],
        )  # fmt: skip


def test_an_equality_of_ones_own() -> None:
    bag = Monoid([], lambda a, b: b + a, lift=lambda v: [v], name="bag", commutative=True)
    with pytest.raises(LawBroken, match="commutativity"):
        check_monoid(bag, [1, 2, 3])
    check_monoid(bag, [1, 2, 3], equal=lambda a, b: sorted(a) == sorted(b))


def test_partials_that_cannot_be_compared_are_said_so() -> None:
    class Opaque:
        pass

    monoid = Monoid(None, lambda a, b: a or b, lift=lambda v: Opaque(), name="opaque")
    with pytest.raises(LawBroken, match=r"cannot be compared.*__eq__") as raised:
        check_monoid(monoid, [1, 2], pageable=False)
    assert isinstance(raised.value.__cause__, ValueError)


def test_events_that_have_an_order() -> None:
    """Spans of time that must touch: only neighbours can be combined."""

    def joined(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return a or b
        assert a[1] <= b[0], "out of order"
        return a[0], b[1]

    span = Monoid(None, joined, lift=lambda t: (t, t), name="span")
    check_monoid(span, [1, 2, 5, 9], ordered=True)
    with pytest.raises(LawBroken, match="out of order"):
        check_monoid(span, [1, 2, 5, 9])


def test_examples_that_say_nothing() -> None:
    with pytest.raises(ValueError, match="two examples"):
        check_monoid(Sum(), [1.0])
    with pytest.raises(LawBroken, match="does not take the example"):
        check_monoid(GeometricMean(), [1.0, -1.0])
    with pytest.raises(ValueError, match="two examples"):
        check_frame(CountWindow(2), [])
    with pytest.raises(ValueError, match="times="):
        check_frame(TimeWindow(5), [1.0, 2.0])


# --- frames -----------------------------------------------------------------------------------

RISING = [float(value) for value in (1, 3, 2, 4, 4, 0, 9, 1, 2, 3, 5, 1, 1, 8, 2)]
SECONDS = [0, 1, 1, 4, 5, 9, 9, 9, 10, 15, 16, 30, 31, 60, 61]
ROWS = [{"x": x, "t": float(t)} for x, t in zip(RISING, SECONDS, strict=True)]
PAIRED = list(zip(RISING, map(float, SECONDS), strict=True))


@pytest.mark.parametrize(
    ("frame", "examples", "options"),
    [
        (CountWindow(4), RISING, {}),
        (TimeWindow(5), RISING, {"times": SECONDS}),
        (CountWindow(3) | TimeWindow(8), RISING, {"times": SECONDS}),
        (CountWindow(3) & TimeWindow(8), RISING, {"times": SECONDS}),
        (BoundWindow(Sum(), at_most=10), RISING, {}),
        (BoundWindow(("x", Sum()), at_most=10) | CountWindow(3), ROWS, {}),
        (CustomFrame(lambda old, new: new - old >= 4, on=("t", Max()), name="4 s"), ROWS, {}),
        (CustomFrame(lambda p, t: t - p >= 6, name="six"), RISING, {"on": Sum()}),
        (SinceMax(), RISING, {}),
        (SinceMax("x") | CountWindow(4), ROWS, {}),
        (SinceMax(own=True), RISING, {"on": Max()}),
        (SinceLongestRun(), PAIRED, {"on": LongestIncreasingRun()}),
        (SinceLongestRun() | CountWindow(5), PAIRED, {"on": LongestIncreasingRun()}),
        (SinceLongestRun(("x", "t")), ROWS, {}),
    ],
    ids=lambda given: repr(given) if isinstance(given, Frame) else "",
)
def test_every_ready_made_frame_keeps_the_laws(
    frame: Frame, examples: list[Any], options: dict[str, Any]
) -> None:
    check_frame(frame, examples, **options)


class Counting(Frame):
    """Keeps three events, but every tenth time that it is asked it keeps one."""

    def __init__(self) -> None:
        self.asked = 0

    def cut(self, view: Any, time: int | None) -> int:
        self.asked += 1
        return int(view.back) - (1 if self.asked % 10 == 0 else 3)

    def describe(self) -> str:
        return "Counting"


class Hasty(CountWindow):
    """In batches it keeps one event less."""

    @property
    def predictable(self) -> bool:
        return True

    def cuts(self, search: Any, start: int, times: Any, count: int) -> range:
        cuts = super().cuts(search, start, times, count)
        return range(cuts.start + 1, cuts.stop + 1)


class Nameless(CountWindow):
    def describe(self) -> str:
        return f"count of {object()}"


class Greedy(CountWindow):
    def cut(self, view: Any, time: int | None) -> int:
        return int(view.back) + 1


def remembering() -> CustomFrame:
    """Evicts at every other question."""
    turns = itertools.cycle([True, False, False])
    return CustomFrame(lambda prefix, total: next(turns), on=Count(), name="turns")


BROKEN_FRAMES: dict[str, tuple[str, Callable[[], Frame]]] = {
    "odd prefixes leave": (
        "monotony",
        lambda: CustomFrame(lambda prefix, total: prefix % 2 == 0, on=Count(), name="even"),
    ),
    "a bound on a sum that falls": (
        "monotony",
        lambda: BoundWindow(Monoid(0.0, lambda a, b: a + b, lift=lambda v: 3 - v, name="s"),
                            at_most=4),
    ),
    "one half of two is not monotone": (
        "monotony",
        lambda: CountWindow(9) | CustomFrame(lambda p, t: p % 2 == 0, on=Count(), name="even"),
    ),
    "batches cut otherwise": ("one by one", lambda: Hasty(3)),
    "a frame that counts its questions": ("one by one", Counting),
    "a frame that takes turns": ("monotony", remembering),
    "a description with an address": ("fingerprint", lambda: Nameless(3)),
    "a cut beyond the window": ("one by one", lambda: Greedy(3)),
    "a rule that raises": (
        "monotony",
        lambda: CustomFrame(lambda prefix, total: prefix["x"] > 1, on=Count(), name="wrong"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_FRAMES)
def test_a_broken_frame_is_caught(name: str) -> None:
    law, make = BROKEN_FRAMES[name]
    broken = {str(each): each for each in frame_laws(make(), RISING)}
    with pytest.raises(LawBroken, match=f"law of {law}") as raised:
        broken[law]()
    assert raised.value.law == law
    with pytest.raises(LawBroken):
        check_frame(make(), RISING)
