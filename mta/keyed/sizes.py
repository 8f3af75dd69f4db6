"""How large the groups of a window are that is one of many.

A standalone window has a snapshot, which every batch writes that brings it events. So its groups
are small: a leaf page fills one page of the disk's. But to fill a leaf group and to leave it costs
some 200 us of Python, however many events it has. A window that begins with many events at once, as
one of few keys with many rows each, has larger leaf groups then, so that some ten of them hold
what it begins with; of an open one that large, most is in pages of its own (``logs.levels.parts``).
"""

from __future__ import annotations

from mta.frames.base import AbstractPolicy
from mta.monoids.base import AbstractMonoid
from mta.pages.page import NAME_BYTES, OBJECT_BYTES

#: What a group's columns may weigh; names and numbers around them take up to 200 bytes more.
LEAF_BYTES, INNER_BYTES = 3840, 1024
#: Into how many leaf groups a window's first events go, and how much larger these may be for it.
_FIRST_GROUPS, _LARGEST = 8, 16


def small_groups(
    monoid: AbstractMonoid, *policies: AbstractPolicy, by_time: bool = False
) -> tuple[int, int]:
    """Sizes of leaf and inner groups, ``leaf_arity`` and ``arity``, that suit many keys.

    A leaf page fills one LMDB page of 4 KiB. Inner groups are smaller, since a snapshot carries an
    open one of each level, and a batch writes the snapshot of each key that it touches. Nodes of
    trees by time hold up to twice their size, and a snapshot carries the last one of each level.
    """
    extra = 8 if by_time or any(policy.needs_times for policy in policies) else 0
    observers = [monoid for policy in policies for _, _, monoid in policy.observers]
    partial = sum(each.partials.row_bytes or OBJECT_BYTES for each in [monoid, *observers])
    value = OBJECT_BYTES if monoid.inputs.row_bytes is None else monoid.inputs.row_bytes
    leaf_arity = LEAF_BYTES // max(value + extra, 1)
    if not by_time:
        arity = INNER_BYTES // (partial + extra + NAME_BYTES)
        return min(max(leaf_arity, 16), 512), min(max(arity, 8), 64)
    # An entry of an inner node is an event with all that leads to a page below.
    arity = INNER_BYTES // (value + partial + 2 * extra + NAME_BYTES)
    return min(max(leaf_arity // 2, 8), 256), min(max(arity // 2, 4), 32)


def grown(leaf_arity: int, events: int) -> int:
    """The size of leaf groups of a window that begins with so many events.

    >>> grown(240, 1_025), grown(240, 16_000), grown(240, 1_000_000)
    (240, 2000, 3840)
    """
    return max(leaf_arity, min(events // _FIRST_GROUPS, _LARGEST * leaf_arity))
