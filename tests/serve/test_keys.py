"""Keys of every type are the same in Python, in a path and in JSON."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import UUID

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mta import Count, CountWindow, KeyedWindows, open_published
from mta.errors import UnsuitableKey
from mta.keyed.key_types import MAX_KEY_BYTES, ZONED
from mta.serve.answers import to_json
from mta.serve.keys import KeyForm
from stores import MemoryStore

WHOLE = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "int": WHOLE,
    "bool": st.booleans(),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "date": st.dates(),
    "datetime": st.datetimes(),
    ZONED: st.datetimes(timezones=st.just(UTC)),
    "duration": st.timedeltas(),
    "time": st.times(),
    "text": TEXT,
    "bytes": st.binary(max_size=200),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=3),
    "uuid": st.uuids(),
}


@st.composite
def keys(draw: st.DrawFn) -> tuple[KeyForm, Any]:
    kinds = draw(st.lists(st.sampled_from(sorted(OF_KIND)), min_size=1, max_size=3))
    parts = tuple(draw(OF_KIND[kind]) for kind in kinds)
    form = KeyForm([(f"column {at}", kind) for at, kind in enumerate(kinds)])
    return form, parts if len(parts) > 1 else parts[0]


@given(keys())
def test_keys_come_back_from_json_and_paths(case: tuple[KeyForm, Any]) -> None:
    form, key = case
    written = orjson.loads(orjson.dumps(form.to_json(key)))
    assert form.of_json(written) == key
    parts = written if form.is_array else [written]
    texts = [part if isinstance(part, str) else json.dumps(part) for part in parts]
    assert form.of_path(",".join(quote(text, safe="") for text in texts)) == key
    assert form.of_json(texts if form.is_array else texts[0]) == key


@given(st.lists(st.one_of(WHOLE, TEXT, st.booleans()), min_size=1, max_size=4))
def test_tuples_of_any_types_are_arrays(parts: list[Any]) -> None:
    form = KeyForm([("key", "tuple")])
    assert form.of_json(form.to_json(tuple(parts))) == tuple(parts)
    quoted = [json.dumps(part, ensure_ascii=False) for part in parts]
    assert form.of_path(",".join(quote(text, safe="") for text in quoted)) == tuple(parts)


def test_parts_of_any_type_need_quotes_where_they_look_like_numbers() -> None:
    form = KeyForm([("key", "tuple")])
    assert form.of_path('north,7,"7",true,7up') == ("north", 7, "7", True, "7up")


#: Texts that are numbers, moments or neither, at the ends of every range.
DIGITS = st.text("0123456789", min_size=1, max_size=30)
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+", " ", "0x"]),
    st.one_of(DIGITS, st.builds("{}.{}".format, DIGITS, DIGITS), st.just("9" * 900)),
    st.sampled_from(["", "e", "E-", "e+"]),
    st.sampled_from(["", "1", "307", "9999", "200000", "999990", "999999999", "9" * 17, "9" * 40]),
)
MOMENTS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["0000-01-01", "0001-01-01", "1970-01-01", "9999-12-31", "10000-01-01", ""]),
    st.sampled_from(["", "T", " ", "T00:00", "T23:59:59.999999", "23:59:59.9999999", "00:00"]),
    st.sampled_from(["", "Z", "+14:00", "-23:59", "+23:59:59.999999", "+24:00", "-00:00"]),
    st.sampled_from(["", "Z", "0", "\x00"]),
)
HOSTILE = st.one_of(NUMBERS, MOMENTS, TEXT, st.sampled_from(["nan", "inf", "-0", "true", "null"]))
#: A key of each type, for windows that are asked for others.
SOME_KEY: dict[str, Any] = {
    "int": 1, "bool": True, "float": 1.5, "date": date(2026, 1, 1),
    "datetime": datetime(2026, 1, 1),
    ZONED: datetime(2026, 1, 1, tzinfo=UTC), "duration": timedelta(1), "time": clock(1),
    "text": "a", "bytes": b"a", "decimal": Decimal(1), "uuid": UUID(int=1), "tuple": ("a", 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", SOME_KEY)
def test_any_text_is_a_key_or_refused_soon(kind: str) -> None:
    store = MemoryStore()
    windows = KeyedWindows(Count(), CountWindow(2), store, name="w")
    windows.publish("w")
    windows.extend([SOME_KEY[kind]], [1])
    windows.checkpoint()
    reader = open_published(store, "w", refresh=None)
    form = KeyForm([(name or "key", type_) for name, type_ in reader.status().key_columns])

    @given(HOSTILE)
    @example("1e200000")
    @example("-1e999990")
    @example("1e-999990")
    @example("86399999999999.999999")
    def ask(text: str) -> None:
        started = time.process_time()
        for read in (lambda: form.of_path(quote(text, safe="")), lambda: form.of_json(text)):
            try:
                key = read()
                found = reader.query(key)
                assert found == (key == SOME_KEY[kind])
                assert reader.query([key]).tolist() == [found]
                assert len(to_json(form.to_json(key))) < 10 * MAX_KEY_BYTES
            except UnsuitableKey as error:
                assert len(str(error)) < 500
        assert time.process_time() - started < 5, "its cost grows with a number, not its length"

    ask()


@pytest.mark.parametrize("kind", sorted(OF_KIND))
@pytest.mark.parametrize("value", [None, [], {}, [1], "\x00", "NaN"])
def test_what_is_no_key_is_refused_by_name(kind: str, value: Any) -> None:
    if kind != "text" or not isinstance(value, str):
        with pytest.raises(UnsuitableKey, match="is not a valid meter, which has the type"):
            KeyForm([("meter", kind)]).of_json(value)


def test_a_key_has_a_part_for_each_column() -> None:
    form = KeyForm([("plant", "text"), ("meter", "int")])
    for wrong in ("north", "north,7,8", "north,x"):
        with pytest.raises(UnsuitableKey, match=r"plant|meter"):
            form.of_path(wrong)
    with pytest.raises(UnsuitableKey, match="array of plant"):
        form.of_json("north,7")
    with pytest.raises(UnsuitableKey, match="no keys"):
        KeyForm([]).of_path("x")
