"""How large the groups of a window are, where the user does not say: by what their rows weigh."""

from __future__ import annotations

from mta.monoids.base import AbstractMonoid
from mta.pages.handle import MAX_ARITY
from mta.pages.page import NAME_BYTES

#: A leaf page of 8128 rows of 8 bytes just fits 16 disk pages of 4 KiB, envelope included.
_LEAF_BYTES, _MAX_LEAF_ARITY = 65024, 8128
_INNER_BYTES, _MAX_INNER_ARITY = 8192, 256
#: What the stack may weigh, which holds a partial for every event of the head leaf group.
_STACK_BYTES = 1 << 22
#: What a value or a partial is taken to weigh where only its bytes would tell.
_OBJECT_BYTES = 64


def group_sizes(
    monoid: AbstractMonoid,
    leaf_arity: int | None,
    arity: int | None,
    *,
    timed: bool,
    by_time: bool,
) -> tuple[int, int]:
    """Sizes of leaf and inner groups, in rows: as given, else what suits one large window.

    A leaf page has up to 64 KiB, an inner one 8 KiB. Where partials are heavy, leaf groups are
    smaller, as the stack has a partial an event. ``timed``: events carry times; ``by_time``: the
    structure is a tree by time. Raises ValueError for a size that no group can have.
    """
    extra = 8 if timed else 0
    value, partial = monoid.inputs.row_bytes, monoid.partials.row_bytes
    if leaf_arity is None:
        weight = _OBJECT_BYTES if value is None else value + extra
        most = min(_MAX_LEAF_ARITY, _STACK_BYTES // max(partial or 1, 1))
        # Leaves of trees by time have up to twice their arity.
        room = _LEAF_BYTES // (2 if by_time else 1)
        leaf_arity = arity or max(64, min(most, room // max(weight, 1)))
    if arity is None:
        weight = _OBJECT_BYTES if partial is None else partial + extra + NAME_BYTES
        arity = max(16, min(_MAX_INNER_ARITY, _INNER_BYTES // weight))
    for size in (leaf_arity, arity):
        if not (isinstance(size, int) and 2 <= size <= MAX_ARITY):
            raise ValueError(f"an arity is a number from 2 to {MAX_ARITY}, not {size!r}")
    return leaf_arity, arity
