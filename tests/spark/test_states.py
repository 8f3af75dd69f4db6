"""A bucket's state: round trip, damage, and other settings."""

from __future__ import annotations

import msgpack
import pytest
import xxhash

from spark_integration.errors import CorruptState, StateMismatch
from spark_integration.step.states import State
from tests.support import forgeries

FIXED = [("by", "device string")]
STATE = State(64, FIXED, b"snapshot" * 20)


def signed(body: bytes) -> bytes:
    return xxhash.xxh3_64_digest(body) + body


def test_round_trip() -> None:
    assert State.decode(STATE.encode()) == STATE
    assert State.decode(STATE.encode()).snapshot_for(64, FIXED) == b"snapshot" * 20


def test_golden() -> None:
    """The format as it lies in checkpoints: change it only together with ``VERSION``."""
    state = State(2, [("a", "b")], b"r")
    assert state.encode().hex() == GOLDEN
    assert State.decode(bytes.fromhex(GOLDEN)) == state


GOLDEN = "da79238c0811433f95a96d74612d737061726b01029192a161a162c40172"


def test_every_truncation_and_every_flipped_bit_is_named() -> None:
    state = STATE.encode()
    for end in range(len(state)):
        with pytest.raises(CorruptState):
            State.decode(state[:end])
    for at in range(len(state) * 8):
        damaged = bytearray(state)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptState):
            State.decode(bytes(damaged))


@pytest.mark.parametrize(
    "content",
    [
        7,
        [],
        ["mta-spark"],
        ["mta-spark", "1", 64, FIXED, b"snapshot"],
        ["other", 1, 64, FIXED, b"snapshot"],
        ["mta-spark", 1, "64", FIXED, b"snapshot"],
        ["mta-spark", 1, 64, FIXED],
        ["mta-spark", 1, 64, FIXED, "snapshot"],
        ["mta-spark", 1, 64, FIXED, b"snapshot", 0],
        ["mta-spark", 1, 64, b"fixed", b"snapshot"],
        ["mta-spark", 1, 64, [["key"]], b"snapshot"],
        ["mta-spark", 1, 64, [["key", 1]], b"snapshot"],
    ],
)
def test_foreign_content_under_a_good_digest_is_named(content: object) -> None:
    with pytest.raises(CorruptState):
        State.decode(signed(msgpack.packb(content)))


def test_forged_states_are_named_or_states() -> None:
    """Any one thing changed under a good digest; the snapshot inside is not decoded here."""
    for body in forgeries.forged(msgpack.unpackb(STATE.encode()[8:])):
        data = forgeries.packed(body)
        if data is not None:
            error = forgeries.bare_error(lambda data=data: State.decode(signed(data)))
            assert error is None, data


def test_bytes_that_are_no_msgpack_are_named() -> None:
    with pytest.raises(CorruptState):
        State.decode(signed(b"\xc1"))
    with pytest.raises(CorruptState):
        State.decode(signed(b"\xdd\xff\xff\xff\xff"))  # a list of 2**32 - 1 items


def test_an_unknown_version_is_named() -> None:
    for version in (0, 2, 5):
        other = signed(msgpack.packb(["mta-spark", version, 64, FIXED, b"snapshot"]))
        with pytest.raises(StateMismatch, match=f"state format {version}, but .* knows only 1"):
            State.decode(other)


def test_other_settings_say_what_to_restore() -> None:
    with pytest.raises(StateMismatch, match="set buckets=64"):
        STATE.snapshot_for(32, FIXED)
    with pytest.raises(StateMismatch, match="restore its settings"):
        STATE.snapshot_for(64, [])
    with pytest.raises(StateMismatch, match=r"\* by \(PARTITION BY\) +device string +id bigint"):
        STATE.snapshot_for(64, [("by", "id bigint")])
