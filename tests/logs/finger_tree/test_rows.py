"""The rows of a node: as a list, and what is shared stays as it was, whatever changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.columns.schemas import Array, Nullable, Objects, Record, Schema, Vector
from mta.logs.finger_tree.node import RowBuffer

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "insert", "insert", "insert_many", "remove", "extend", "drop",
             "truncate", "copy", "shared", "shared"]
        ),
        st.floats(0, 1, exclude_max=True),
        st.integers(1, 3),
    ),
    max_size=40,
)  # fmt: skip


def listed(schema: Record, rows: Any, count: int) -> list[Any]:
    return [(int(time), value) for time, value in (schema.at(rows, i) for i in range(count))]


@pytest.mark.parametrize("values", [Array("f8"), Objects()], ids=["numbers", "objects"])
@pytest.mark.parametrize("from_page", [False, True])
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_rows_are_a_list_and_what_is_shared_stays(  # noqa: C901, PLR0912
    values: Schema, from_page: bool, steps: list[tuple[str, float, int]]
) -> None:
    schema, serial = Record([Array("i8"), values]), iter(range(10**6))

    def new(count: int) -> list[Any]:
        return [(next(serial), float(next(serial))) for _ in range(count)]

    expected = new(4)
    rows = schema.gathered(expected)
    if from_page:
        rows[0].flags.writeable = False
    buffer = RowBuffer(schema, rows, 4)
    shared: list[tuple[Any, list[Any]]] = []
    for what, where, count in steps:
        size = len(expected)
        at, some = int(where * (size + 1)), new(count)
        if what in ("put", "remove", "truncate", "drop") and not size:
            continue
        if what == "put":
            at = min(at, size - 1)
            buffer.put(at, some[0])
            expected[at] = some[0]
        elif what == "insert":
            buffer.insert(at, some[0])
            expected.insert(at, some[0])
        elif what == "insert_many":
            buffer.insert_many(at, schema.gathered(some), count)
            expected[at:at] = some
        elif what == "remove":
            at = min(at, size - 1)
            assert buffer.remove(at) == expected.pop(at)
        elif what == "extend":
            buffer.extend(schema.gathered(some), count)
            expected += some
        elif what == "drop":
            buffer.drop(min(count, size))
            del expected[:count]
        elif what == "truncate":
            buffer.truncate(at)
            del expected[at:]
        elif what == "copy":
            buffer = buffer.copy(0, size, size + count)
            assert buffer.has_room(count) and not buffer.has_room(count + 1)
        else:
            shared.append((buffer.share(at, size), expected[at:]))
        assert listed(schema, buffer.rows, buffer.count) == expected
        for view, then in shared:
            assert listed(schema, view, len(then)) == then


def test_rows_are_added_where_there_is_room_although_they_are_shared() -> None:
    schema = Record([Array("i8"), Array("f8")])
    buffer = RowBuffer(schema, schema.gathered([(1, 1.0)]), 1).copy(0, 1, 10)
    shared = buffer.share(0, 1)
    buffer.extend(schema.gathered([(2, 2.0)]), 1)
    assert np.shares_memory(shared[1], buffer.numbers(1))
    buffer.put(0, (3, 3.0))
    assert not np.shares_memory(shared[1], buffer.numbers(1)) and shared[1].tolist() == [1.0]


#: Schemas, and the value that a number becomes in a column of each.
COLUMNS: list[tuple[Schema, Any]] = [
    (Array("f8"), float), (Array("?"), bool), (Nullable(Array("i8")), lambda n: n or None),
    (Objects(), lambda n: (n, str(n))), (Vector("f8", 2), lambda n: [n, -n]),
]  # fmt: skip


@given(parts=st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=4))
def test_parts_are_joined_as_lists_are(parts: list[list[int]]) -> None:
    schema, sizes = Record([column for column, _ in COLUMNS]), [len(part) for part in parts]
    listed = [[tuple(value(n) for _, value in COLUMNS) for n in part] for part in parts]
    joined = schema.joined([schema.gathered(part) for part in listed], sizes)
    every = schema.gathered([row for part in listed for row in part])
    assert schema.dump(joined) == schema.dump(every)
