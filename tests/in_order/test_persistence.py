"""FOA is lazy and persistent: every version stays usable, at the same cost."""

from __future__ import annotations

import random

import pytest

from mta.algorithms import FOA
from mta.in_order.foa import Version, walk
from tests.support.in_order_windows import Counted, fill
from tests.support.naive import joined


def text(version: Version) -> str:
    """The values of a version, in order, without forcing anything."""
    front = [cell.value for cell in walk(version.front)]
    back = [cell.value for cell in walk(version.back)]
    return "".join([*front, *reversed(back)])


def test_any_version_goes_on_as_if_it_were_the_only_one() -> None:
    """A tree of versions: each step takes any of them, old or new, and adds another."""
    drawn, counted = random.Random(11), Counted()
    versions = [(Version(counted.monoid), "")]
    for step in range(3000):
        version, expected = drawn.choice(versions[-200:] if step % 3 else versions)
        if expected and drawn.random() < 0.45:
            cost, bound = counted.combines, 3
            version, expected = version.evict(), expected[1:]
        else:
            letter = chr(97 + step % 26)
            cost, bound = counted.combines, 4
            version, expected = version.insert(letter), expected + letter
        assert counted.combines - cost <= bound
        assert version.size == len(expected)
        versions.append((version, expected))
    for version, expected in versions:
        assert (version.query() if expected else "") == expected
        assert text(version) == expected


def test_a_forced_step_is_not_taken_twice() -> None:
    """Evicting from one version forces the rotation that another version shares."""
    counted = Counted()
    window = fill(FOA(counted.monoid), "abcdefg")  # the seventh begins a rotation
    version = window.version
    assert version.front is not None and version.front.is_suspended
    version.evict()
    assert not version.front.is_suspended
    before = counted.combines
    version.evict()
    assert counted.combines == before


def test_what_nobody_looks_at_is_never_computed() -> None:
    counted = Counted()
    window = fill(FOA(counted.monoid), "abcdefg")
    taken = counted.combines
    # Seven values: seven combines to insert, and the steps of rotations begun or forced so far; all
    # of a queue turned round at once would be two aggregates a value more.
    assert taken < 3 * 7
    assert counted.of(window.query) == 1
    assert window.version.front is not None and window.version.front.is_suspended
    window.check()
    assert window.version.front.is_suspended, "checking forces nothing"


def test_a_version_cannot_be_changed() -> None:
    version = fill(FOA(joined()), "ab").version
    with pytest.raises(AttributeError):
        version.size = 7  # type: ignore[misc]
