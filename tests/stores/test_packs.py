"""The formats of packs and lists: round trips, golden bytes, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from stores.errors import StoreDamaged
from stores.packs import (
    HEAD,
    LIST_HEAD,
    Entry,
    Listed,
    NeedsMore,
    decode_index,
    decode_list,
    encode_list,
    encode_pack,
    entries_of,
)

GOLDEN = Path(__file__).parent / "golden"
PAGES = {"w/0/1/aa": b"a page", "w/0/2/bb": b"", "w:f0/1/0/cc": bytes(range(256))}
DELETED = {"018f0000000-0123456789ab.pack": [0, 2]}
LISTED = [Listed("018f0000001-0123456789ab.pack", 400, entries_of(PAGES), [1])]


def test_a_pack_says_where_its_pages_are() -> None:
    data = encode_pack(PAGES, DELETED)
    index = decode_index(data, len(data))
    assert {e.key: data[e.start : e.start + e.length] for e in index.entries} == PAGES
    assert index.entries == entries_of(PAGES)
    assert index.deleted == DELETED


def test_an_index_is_read_from_the_end_alone() -> None:
    data = encode_pack(PAGES, DELETED)
    with pytest.raises(NeedsMore) as more:
        decode_index(data[-30:], len(data))
    assert decode_index(data[-more.value.length :], len(data)).deleted == DELETED


def test_a_pack_may_have_no_page() -> None:
    data = encode_pack({}, DELETED)
    assert decode_index(data, len(data)).entries == []


def test_a_list_repeats_packs() -> None:
    assert decode_list(encode_list(LISTED, DELETED)) == (LISTED, DELETED)


@pytest.mark.parametrize("name", ["pack", "list"])
def test_the_formats_are_those_of_the_golden_files(name: str) -> None:
    written = encode_pack(PAGES, DELETED) if name == "pack" else encode_list(LISTED, DELETED)
    assert written == (GOLDEN / f"{name}.bin").read_bytes()


def test_each_damaged_byte_of_an_index_is_noticed() -> None:
    data = encode_pack(PAGES, DELETED)
    for at in range(len(HEAD) + sum(map(len, PAGES.values())), len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises((StoreDamaged, NeedsMore)):
            decode_index(bytes(damaged), len(data))


def test_a_pack_of_another_length_is_damaged() -> None:
    data = encode_pack(PAGES, DELETED)
    for size in (len(data) - 1, len(data) + 1):
        with pytest.raises(StoreDamaged, match="do not add up"):
            decode_index(data, size)
    for length in range(30):
        with pytest.raises((StoreDamaged, NeedsMore)):
            decode_index(data[:length], length)


def test_each_damaged_byte_of_a_list_is_noticed() -> None:
    data = encode_list(LISTED, DELETED)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(StoreDamaged):
            decode_list(bytes(damaged))
        with pytest.raises(StoreDamaged):
            decode_list(data[:at])


@pytest.mark.parametrize(
    "body",
    [
        "nothing", [], [[], []], [[["p", 10, [["k", 5]], []]], {}],
        [[["p", 99, [["k", -1]], []]], {}],
        [[["p", 99, [["k", 5]], [1]]], {}], [[[7, 99, [], []]], {}], [[["p", "9", [], []]], {}],
        [[], {"p": ["0"]}], [[], {"p": [-1]}], [[], {7: [1]}], [[["p", 99, [[7, 5]], []]], {}],
    ],
    ids=str,
)  # fmt: skip
def test_a_list_with_a_good_digest_is_still_not_trusted(body: object) -> None:
    import msgpack
    import xxhash

    data = LIST_HEAD + msgpack.packb(body)
    with pytest.raises(StoreDamaged, match="cannot be read"):
        decode_list(data + xxhash.xxh3_128_digest(data))


def test_entries_follow_one_another() -> None:
    assert entries_of({"a": b"12", "b": b"345"}) == [Entry("a", 9, 2), Entry("b", 11, 3)]
