"""A bucket's state: round trip, damage, and other settings."""

from __future__ import annotations

import msgpack
import pytest
import xxhash

from spark_integration.errors import CorruptState, StateMismatch
from spark_integration.step.states import (
    Bucket,
    Doomed,
    Saved,
    decode_state,
    encode_root,
    read_doomed,
    read_handles,
    read_root,
)
from tests.support.spark.saved import encode_handles

PLAN = b"p" * 16
FIXED = [("by", "device string")]
SAVED = {b"key one": Saved(7, b"handle" * 9), b"\x91\x02": Saved(-1, b"", -4)}
BUCKET = Bucket(SAVED, -5, [Doomed(1, b"gone"), Doomed(2, b"")])


def signed(body: bytes) -> bytes:
    return xxhash.xxh3_64_digest(body) + body


def test_round_trip() -> None:
    for bucket in (BUCKET, Bucket(SAVED), Bucket()):
        assert decode_state(encode_handles(bucket, 64, PLAN), 64, PLAN) == bucket
    assert decode_state(None, 64, PLAN) == Bucket()
    state = encode_handles(BUCKET, 64, PLAN)
    assert read_handles(state) == {b"key one": b"handle" * 9, b"\x91\x02": b""}
    assert read_doomed(state) == [b"gone", b""]


def test_round_trip_of_a_root() -> None:
    state = encode_root(b"root", 64, FIXED)
    assert decode_state(state, 64, PLAN, FIXED) == b"root"
    assert read_root(state) == b"root"
    assert (read_handles(state), read_doomed(state)) == ({}, [])
    assert read_root(encode_handles(BUCKET, 64, PLAN)) is None


def test_golden() -> None:
    """The format as it lies in checkpoints: change it only together with ``VERSION``."""
    keys = {b"k": Saved(5, b"h"), b"l": Saved(6, b"i", 9)}
    bucket = Bucket(keys, 7, [Doomed(1, b"d")])
    assert encode_handles(bucket, 2, b"p").hex() == GOLDEN
    assert decode_state(bytes.fromhex(GOLDEN), 2, b"p") == bucket
    # A fourth item, which is no longer written.
    keys[b"l"] = Saved(6, b"i")
    assert decode_state(bytes.fromhex(GOLDEN_3), 2, b"p") == bucket
    assert encode_root(b"r", 2, [("a", "b")]).hex() == GOLDEN_5
    assert decode_state(bytes.fromhex(GOLDEN_5), 2, b"q", [("a", "b")]) == b"r"
    assert decode_state(bytes.fromhex(GOLDEN_4), 2, b"p") == b"r"


GOLDEN = (
    "08225ca7c804d73d97a96d74612d737061726b0302c4017082c4016b9205"
    "c40168c4016c9306c401690907919201c40164"
)
GOLDEN_5 = "4f929c0fd1a6b8cc95a96d74612d737061726b05029192a161a162c40172"
GOLDEN_4 = "86077d1f9ab8731295a96d74612d737061726b0402c40170c40172"
GOLDEN_3 = (
    "6506813461ac051497a96d74612d737061726b0302c4017082c4016b9205"
    "c40168c4016c9406c40169c00907919201c40164"
)


@pytest.mark.parametrize(
    "state", [encode_handles(BUCKET, 64, PLAN), encode_root(b"root" * 20, 64, FIXED)]
)
def test_every_truncation_and_every_flipped_bit_is_named(state: bytes) -> None:
    for end in range(len(state)):
        with pytest.raises(CorruptState):
            decode_state(state[:end], 64, PLAN)
    for at in range(len(state) * 8):
        damaged = bytearray(state)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptState):
            decode_state(bytes(damaged), 64, PLAN)


@pytest.mark.parametrize(
    "content",
    [
        7,
        [],
        ["mta-spark"],
        ["mta-spark", 3, "64", PLAN, {}, None, []],
        ["other", 3, 64, PLAN, {}, None, []],
        ["mta-spark", 3, 64, PLAN, {}],
        ["mta-spark", 3, 64, PLAN, {}, None],
        ["mta-spark", 3, 64, PLAN, {"text": [0, b""]}, None, []],
        ["mta-spark", 3, 64, PLAN, {b"key": 5}, None, []],
        ["mta-spark", 3, 64, PLAN, {b"key": [0]}, None, []],
        ["mta-spark", 3, 64, PLAN, {b"key": ["0", b""]}, None, []],
        ["mta-spark", 3, 64, PLAN, {}, "0", []],
        ["mta-spark", 3, 64, PLAN, {}, None, {}],
        ["mta-spark", 3, 64, PLAN, {}, None, [[1]]],
        ["mta-spark", 3, 64, PLAN, {}, None, [[b"", 1]]],
        ["mta-spark", 3, 64, PLAN, {}, None, [], 0],
        ["mta-spark", 3, 64, PLAN, {b"key": [0, b"", 1, 2]}, None, []],
        ["mta-spark", 3, 64, PLAN, {b"key": [0, b"", None, b""]}, None, []],
        ["mta-spark", 3, 64, PLAN, b"root"],
        ["mta-spark", 4, 64, PLAN],
        ["mta-spark", 4, 64, PLAN, "root"],
        ["mta-spark", 4, 64, PLAN, b"root", 0],
        ["mta-spark", 4, 64, PLAN, {}, None, []],
        ["mta-spark", 5, 64, PLAN, b"root"],
        ["mta-spark", 5, 64, [["key"]], b"root"],
        ["mta-spark", 5, 64, [["key", 1]], b"root"],
    ],
)
def test_foreign_content_under_a_good_digest_is_named(content: object) -> None:
    with pytest.raises(CorruptState):
        decode_state(signed(msgpack.packb(content)), 64, PLAN)


def test_bytes_that_are_no_msgpack_are_named() -> None:
    with pytest.raises(CorruptState):
        decode_state(signed(b"\xc1"), 64, PLAN)
    with pytest.raises(CorruptState):
        decode_state(signed(b"\xdd\xff\xff\xff\xff"), 64, PLAN)  # a list of 2**32 - 1 items


def test_other_settings_say_what_to_restore() -> None:
    for state in (encode_handles(BUCKET, 64, PLAN), encode_root(b"root", 64, FIXED)):
        with pytest.raises(StateMismatch, match="set buckets=64"):
            decode_state(state, 32, PLAN)
        with pytest.raises(StateMismatch, match="restore these settings"):
            decode_state(state, 64, b"q" * 16)
    with pytest.raises(StateMismatch, match=r"\* by +device string +id bigint"):
        decode_state(encode_root(b"root", 64, FIXED), 64, PLAN, [("by", "id bigint")])
    for version in (1, 2, 6):
        other = signed(msgpack.packb(["mta-spark", version, 64, PLAN, {}]))
        with pytest.raises(StateMismatch, match=f"state format {version}"):
            decode_state(other, 64, PLAN)
