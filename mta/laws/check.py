"""The laws that windows rely on, checked on examples.

    def test_my_monoid():
        check_monoid(MyMonoid(), examples=[1.0, 2.5, -3.0, 0.0])

or, for a test of each law by itself,

    @pytest.mark.parametrize("law", monoid_laws(MyMonoid(), [1.0, 2.5, -3.0, 0.0]), ids=str)
    def test_my_monoid(law):
        law()

A broken law is a ``LawBroken``, which is an AssertionError: it names the law, the example and both
sides. The laws hold for all values or for none, so choose examples with care: ties, zeros, negative
and large numbers, empty texts. Ten will do; runs of them stand for larger partials.

Floating-point numbers are compared up to the rounding of what they were made of (``equality``),
sketches by what they answer (``AbstractMonoid.same``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mta.errors import LawBroken
from mta.laws.monoid import Equal, MonoidBench
from mta.laws.policy import PolicyBench
from mta.monoids.base import AbstractMonoid
from mta.policies.base import AbstractPolicy


@dataclass(frozen=True)
class Law:
    """A law on given examples; calling it raises LawBroken where it does not hold."""

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
    """Check every law of a monoid; options as for ``monoid_laws``. Raises LawBroken.

    >>> from mta import Max
    >>> from mta.laws import check_monoid
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
    """The laws of a monoid, to be called one by one.

    ``examples`` are values of events, as for ``Window.insert``. ``equal`` says when two partials
    stand for the same events, where the monoid's own ``same`` is not enough. ``pageable=False`` is
    for partials that are never to leave memory. With ``ordered=True`` only neighbours are combined,
    for a monoid of events that cannot stand in another order. ``rounds`` triples are tried, or all
    of them if there are fewer. Raises ValueError for examples that say nothing.
    """
    bench = MonoidBench(monoid, examples, equal, ordered, rounds, seed)
    declared = {
        "commutativity": monoid.commutative,
        "inverse": monoid.inverse is not None,
        "selection": monoid.selective,
        "pages": pageable,
    }
    names = [name for name in vars(MonoidBench) if name[0] != "_" and declared.get(name, True)]
    return [Law(name, getattr(bench, name), repr(monoid)) for name in names]


def check_policy(policy: AbstractPolicy, examples: Sequence[Any], **options: Any) -> None:
    """Check every law of a policy; options as for ``policy_laws``. Raises LawBroken.

    >>> from mta import BoundWindow, Sum
    >>> check_policy(BoundWindow(Sum(), at_most=10), [4.0, 4.0, 2.0, 0.0, 11.0, 3.0])
    """
    for law in policy_laws(policy, examples, **options):
        law()


def policy_laws(
    policy: AbstractPolicy,
    examples: Sequence[Any],
    times: Sequence[Any] | None = None,
    *,
    on: AbstractMonoid | None = None,
    starts: int = 8,
    seed: int = 0,
) -> list[Law]:
    """The laws of a policy, to be called one by one.

    ``examples`` are values of events in the order of the stream, ``times`` theirs where the policy
    looks at times. ``on`` is the window's monoid, needed where the policy observes that and not a
    monoid of its own. Windows are started at so many places of the stream: all the laws must hold
    whatever came before. Raises ValueError for examples that say nothing.
    """
    bench = PolicyBench(policy, examples, times, on, starts, seed)
    laws = {
        "fingerprint": bench.fingerprint,
        "monotony": bench.monotony,
        "one by one": bench.one_by_one,
    }
    return [Law(name, holds, repr(policy)) for name, holds in laws.items()]
