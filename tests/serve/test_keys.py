"""Keys of every type are the same in Python, in a path and in JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.errors import UnsuitableKey
from mta.keyed.key_types import ZONED
from mta.serve.keys import KeyForm

WHOLE = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "int": WHOLE,
    "bool": st.booleans(),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "date": st.dates(),
    "datetime": st.datetimes(),
    ZONED: st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC)),
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
