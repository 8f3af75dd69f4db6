"""Processes that die are noticed within the declared time, and wrong clocks do no harm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mta.service import members
from mta.service.declaration import Declaration
from mta.service.members import Members
from mta.service.owners import LOOKS
from stores import MemoryStore, PageStore
from tests.service.conftest import Declare

#: The longest time in seconds until the shards of a dead owner have another one.
PROMISED = 2.0


class Clock:
    """The monotonic clock of all members, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(members.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def member(store: PageStore, declared: Declaration, own: str, place: str = "") -> Members:
    found = Members(store, declared.name, own, declared.takeover_after / 1e6)
    found._place = place or own  # each on a machine of its own
    return found


@pytest.mark.parametrize("offset", [0.0, 0.4, 0.999])
def test_a_process_without_beats_is_replaced_in_the_promised_time(
    declare: Declare, clock: Clock, offset: float
) -> None:
    """Counted in looks, of which there are as many as declared."""
    store, declared = MemoryStore(), declare()
    period = declared.takeover_after / 1e6 / LOOKS
    alive, dies = member(store, declared, "alive"), member(store, declared, "dies")
    for _ in range(10):
        dies.look()
        dies.beat()
        alive.beat()
        assert alive.look() == {"alive", "dies"}
        clock.now += period
    clock.now -= period * offset  # the last beat comes right after a look, or right before
    dies.beat()
    died, looks = clock.now, 0
    while True:
        clock.now += period * offset if not looks else period
        looks += 1
        alive.beat()
        if alive.look() == {"alive"}:
            break
        assert looks < 20
    assert looks <= LOOKS + 2
    # It claims the shards in this look; half a second is left for that.
    assert clock.now - died <= PROMISED - 0.5
    assert alive.look() == {"alive"}


def test_a_dead_process_of_the_same_machine_is_noticed_at_once(
    declare: Declare, clock: Clock
) -> None:
    store, declared = MemoryStore(), declare()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = member(store, declared, "other", "here")
    other._me = process.pid, members.started(process.pid)
    other.look()
    other.beat()
    own = member(store, declared, "own", "here")
    assert own.look() == {"own", "other"}
    process.kill()
    process.wait()
    assert own.look() == {"own"}


def test_a_process_with_the_number_of_a_dead_one_is_another(declare: Declare, clock: Clock) -> None:
    store, declared = MemoryStore(), declare()
    other = member(store, declared, "other", "here")
    other._me = os.getpid(), members.started(os.getpid()) - 1
    other.look()
    other.beat()
    assert member(store, declared, "own", "here").look() == {"own"}


def test_a_process_that_was_paused_takes_nobody_for_dead(declare: Declare, clock: Clock) -> None:
    store, declared = MemoryStore(), declare()
    one, other = member(store, declared, "one"), member(store, declared, "other")
    for each in (one, other):
        each.look()
        each.beat()
    assert one.look() == {"one", "other"}
    clock.now += 3600.0  # paused: the other has put beats all the time, the last one before this
    assert one.look() == {"one", "other"}
    other.beat()
    clock.now += 0.9
    assert one.look() == {"one", "other"}


def test_beats_that_nobody_can_read_count_as_silence(declare: Declare, clock: Clock) -> None:
    store, declared = MemoryStore(), declare()
    one, other = member(store, declared, "one"), member(store, declared, "other")
    other.look()
    for content in (b"", b"\xc1", b"\x91\x01", os.urandom(50)):
        store.put_many({other._key("other"): content})
        assert one.look() == {"one", "other"}
    clock.now += 0.9
    one.look()
    clock.now += 0.2
    assert one.look() == {"one"}
