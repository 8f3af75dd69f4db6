"""What is refused, and that ``check`` finds damage: a check that never fails would be none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import Max, Mean, Monoid, Product, Sum
from mta.aggregations import AbstractMonoid, ColumnarMonoid
from mta.algorithms import (
    DABA,
    FOA,
    IN_ORDER,
    IOA,
    SBA,
    DABALite,
    FlatFIT,
    SlickDeque,
    SubtractOnEvict,
    TwoStacks,
    TwoStacksLite,
)
from mta.errors import InvalidValue, InvariantViolation, UnsuitableMonoid, WindowStoreError
from mta.monoids.equality import same
from tests.support.in_order_windows import VARIANTS, Variant, cut_off, fill, longest, sliding
from tests.support.naive import joined

# --- operations that do not suit ----------------------------------------------------------------


def test_who_takes_which_operation() -> None:
    suited = {a.__name__: [a.suits(m) for m in (Sum(), Max(), joined())] for a in IN_ORDER}
    assert suited.pop("SubtractOnEvict") == [True, False, False]
    assert suited.pop("SlickDeque") == [True, True, False]
    assert all(all(answers) for answers in suited.values())


@pytest.mark.parametrize(
    ("algorithm", "monoid"),
    [(SubtractOnEvict, Max()), (SubtractOnEvict, joined()), (SlickDeque, joined())],
)
def test_an_unsuitable_operation_is_refused_at_once(algorithm: type, monoid: Any) -> None:
    with pytest.raises(UnsuitableMonoid, match=r"needs an operation that is .*use Two-Stacks"):
        algorithm(monoid)
    assert issubclass(UnsuitableMonoid, WindowStoreError)
    assert issubclass(UnsuitableMonoid, TypeError)


BY_INVERSE = pytest.mark.parametrize("algorithm", [SubtractOnEvict, SlickDeque])


@BY_INVERSE
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("monoid", [Sum(), Mean(), Product({"a": ("x", Sum())})], ids=repr)
def test_a_value_that_would_never_leave_is_refused(
    algorithm: type, value: float, monoid: AbstractMonoid
) -> None:
    window = algorithm(monoid)
    given = (lambda v: {"x": v}) if isinstance(monoid, Product) else float
    window.insert(given(2.0))
    with pytest.raises(InvalidValue, match="cannot be removed from"):
        window.insert(given(value))
    assert len(window) == 1
    assert same(window.query(), {"a": 2.0} if isinstance(monoid, Product) else 2.0)


@BY_INVERSE
def test_a_zero_factor_is_refused(algorithm: type) -> None:
    factors = Monoid(1, lambda a, b: a * b, name="product", inverse=lambda a, b: a // b)
    window = fill(algorithm(factors), [2, 3, 7])
    with pytest.raises(InvalidValue, match="0 cannot be removed from a product"):
        window.insert(0)
    window.evict()
    assert window.query() == 21


@BY_INVERSE
def test_rounding_ends_with_the_window(algorithm: type) -> None:
    """1e17 swallows the 1, and leaves nothing of it; an empty window begins at zero again."""
    window = fill(algorithm(Sum()), [1.0, 1e17])
    window.evict()
    window.evict()
    window.insert(0.25)
    assert window.query() == 0.25
    window.check()


@BY_INVERSE
def test_partials_that_are_arrays_can_be_undone(algorithm: type) -> None:
    counts = Monoid(
        np.zeros(3),
        lambda a, b: a + b,
        lift=lambda i: np.eye(3)[i],
        inverse=lambda a, b: a - b,
        name="histogram",
    )
    window = fill(algorithm(counts), [0, 1, 1, 2])
    window.evict()
    assert window.query().tolist() == [0, 2, 1]


def test_a_monoid_whose_identity_is_none() -> None:
    """None is a partial like others, and no sign that there is none."""
    last = Monoid(None, lambda a, b: a if b is None else b, name="last known")
    for variant in VARIANTS:
        if variant.algorithm.suits(last):
            window = fill(variant.build(last), [1, None, None])
            assert window.query() == (1 if variant.range >= 3 else None), variant
            window.check()


def test_slick_deque_with_nan() -> None:
    """A NaN that is taken for a value makes the maximum NaN until it leaves."""
    window = fill(SlickDeque(Max()), [1.0, math.nan, 3.0, 2.0])
    assert math.isnan(window.query())
    window.check()
    window.evict()
    assert math.isnan(window.query())
    window.evict()
    assert window.query() == 3.0


# --- damage -------------------------------------------------------------------------------------


def wrong_cell(window: Any) -> None:
    front = window.version.front if isinstance(window, FOA) else window.front
    front.agg = "?"


def wrong_next(window: Any) -> None:
    if isinstance(window, FOA):
        window.version = window.version._replace(next=None)
    else:
        window.next = None


def wrong_ra(window: DABALite) -> None:
    while window.l == window.r:  # only then it is needed
        window.insert("z")
    window.agg_ra = "?"


def wrong_pointer(window: FlatFIT) -> None:
    window._pointers[window._front & window._mask] = window._front + 2
    window._pointers[(window._front + 1) & window._mask] = window._front + 3


def wrong(name: str) -> Callable[[Any], None]:
    """Damage to one attribute."""
    return lambda window: setattr(window, name, "?")


def instead(name: str, at: Any, change: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """Damage to one element of an attribute; ``at`` may say where it is."""

    def harm(window: Any) -> None:
        items = getattr(window, name)
        place = at(window) if callable(at) else at
        items[place] = change(window, items[place])

    return harm


def move_l(window: Any) -> None:
    window.l = window._queue.after(window.l)


def plainly(algorithm: type) -> Variant:
    return Variant(algorithm.__name__, algorithm, algorithm)


SLIDING = sliding(SBA, 12, 1)
DAMAGE: dict[str, tuple[Variant, Callable[[], Monoid], Callable[[Any], None]]] = {
    "subtraction": (plainly(SubtractOnEvict), cut_off, wrong("agg")),
    "front": (plainly(TwoStacks), joined, instead("front", 0, lambda w, pair: (pair[0], "?"))),
    "back": (plainly(TwoStacks), joined, instead("back", -1, lambda w, pair: (pair[0], "?"))),
    "back, lite": (plainly(TwoStacksLite), joined, wrong("agg_b")),
    "FOA's cell": (plainly(FOA), joined, wrong_cell),
    "FOA's rotation": (plainly(FOA), joined, wrong_next),
    "IOA's cell": (plainly(IOA), joined, wrong_cell),
    "IOA's rotation": (plainly(IOA), joined, wrong_next),
    "DABA": (plainly(DABA), joined, instead("aggs", lambda w: w._queue.begin, lambda w, _: "?")),
    "DABA's l": (plainly(DABA), joined, move_l),
    "DABA Lite's ra": (plainly(DABALite), joined, wrong_ra),
    "DABA Lite's b": (plainly(DABALite), joined, wrong("agg_b")),
    "DABA Lite's l": (plainly(DABALite), joined, move_l),
    "FlatFIT": (plainly(FlatFIT), joined, wrong_pointer),
    "FlatFIT's end": (
        plainly(FlatFIT), joined,
        instead("_pointers", lambda w: (w._back - 1) & w._mask, lambda w, _: w._back + 1),
    ),
    "SlickDeque": (plainly(SlickDeque), longest, instead("_nodes", 0, lambda w, n: (n[0], ""))),
    "SlickDeque's answer": (plainly(SlickDeque), cut_off, lambda w: wrong("agg")(w._running)),
    "SBA's csa": (SLIDING, joined, wrong("_csa")),
    "SBA's size": (SLIDING, joined, lambda w: setattr(w, "_size", w._size + 1)),
    "SBA's chunk": (
        SLIDING, joined, lambda w: setattr(w._chunks[0], "stop", w._chunks[0].stop - 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(name: str) -> None:
    variant, make, harm = DAMAGE[name]
    window = fill(variant.build(make()), ["a", "bbb", "c", "dd"])
    window.evict()
    fill(window, ["e", "ff", "g", "h", "i"])
    window.check()
    harm(window)
    with pytest.raises(InvariantViolation, match="report this as a bug"):
        window.check()


def test_an_operation_that_is_not_selective_is_found() -> None:
    """It says that it is, so that its answers would be wrong."""
    liar = ColumnarMonoid("Sum?", partials="f8", identity=0.0, ufuncs=(np.add,), selective=True)
    window = fill(SlickDeque(liar), [1.0, 2.0])
    with pytest.raises(InvariantViolation, match="beats"):
        window.check()
