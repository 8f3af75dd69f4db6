"""Packs of pages: their formats, how many requests they take, and what a failure at any leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from random import Random

import pytest

from stores.errors import StoreAccessDenied, StoreDamaged, StoreUnavailable
from stores.pack_folder import LIST_EVERY, MOST_UNLISTED, READ_AGAIN, REMOVE_AT
from stores.pack_store import PACK_CACHE, PackStore
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
from tests.support.objects import MemoryObjects

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


SLIDES = 3 * LIST_EVERY
WINDOW = 40


def page(number: int) -> dict[str, bytes]:
    return {f"w/0/{number}": bytes([number % 256]) * 100}


def pages(numbers: Iterable[int]) -> dict[str, bytes]:
    return {key: data for number in numbers for key, data in page(number).items()}


def slide(store: PackStore, start: int, stop: int, window: int = WINDOW) -> None:
    """Put a page each turn, and delete the one that leaves the window, as a stream does."""
    for number in range(start, stop):
        store.delete_many(page(number - window))
        store.put_many(page(number))
        store.flush()


def spent(objects: MemoryObjects, work: Callable[[], object]) -> dict[str, int]:
    """The requests that the work makes."""
    objects.requests.clear()
    work()
    return dict(objects.requests)


def test_the_pages_of_one_put_are_one_object() -> None:
    store = PackStore(objects := MemoryObjects())
    assert spent(objects, lambda: store.put_many(pages(range(500)))) == {"PUT": 1}
    assert spent(objects, store.flush) == {}


def test_what_was_written_lately_is_read_from_memory() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(500)))
    assert spent(objects, lambda: store.get_many(list(pages(range(0, 500, 7))))) == {}


def test_what_was_written_long_ago_is_read_without_a_listing() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(500)))
    for number in range(3):
        store.put_many({f"w/1/{number}": bytes(READ_AGAIN)})
        store.put_many({f"w/1/{number}/more": bytes(READ_AGAIN - 1000)})
    assert spent(objects, lambda: store.get_many(list(pages(range(0, 500, 7))))) == {"GET": 1}


def test_a_pack_is_read_whole_by_the_second_call_that_wants_some_of_it() -> None:
    objects = MemoryObjects()
    large = {f"w/0/{number}": bytes([number]) * 10_000 for number in range(100)}
    PackStore(objects).put_many(large)
    store = PackStore(objects)
    for number, requests in enumerate([{"LIST": 1, "GET": 2}, {"GET": 1}, {}, {}]):
        key = f"w/0/{7 * number}"
        got: list[bytes | None] = []
        made = spent(objects, lambda key=key, got=got: got.extend(store.get_many([key])))  # type: ignore[misc]
        assert (made, got) == (requests, [large[key]])


def test_memory_for_packs_is_bounded() -> None:
    store = PackStore(MemoryObjects())
    for number in range(40):
        store.put_many({f"w/0/{number}": bytes(1 << 20)})
    (folder,) = store._folders.values()
    assert 0 < folder._recent.size <= PACK_CACHE
    store.delete_many(list(store.keys()))
    store.flush()
    assert folder._recent.size == 0


def test_deletes_travel_with_the_next_put() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(10)))
    assert spent(objects, lambda: store.delete_many(page(1))) == {}
    assert spent(objects, lambda: store.put_many(page(10))) == {"PUT": 1}
    assert PackStore(objects).get_many([*page(1), *page(2)]) == [None, *page(2).values()]


def test_a_sliding_window_takes_little_more_than_a_request_a_flush() -> None:
    store = PackStore(objects := MemoryObjects())
    slide(store, WINDOW, 2 * WINDOW)
    made = spent(objects, lambda: slide(store, 2 * WINDOW, 2 * WINDOW + SLIDES))
    assert sum(made.values()) <= SLIDES * (1 + 1 / REMOVE_AT + 1 / LIST_EVERY) + 3
    assert made["PUT"] <= SLIDES + 3
    assert len(objects.objects) < WINDOW + 2 * REMOVE_AT, "objects that nobody needs pile up"


def test_a_new_process_reads_a_snapshot_with_few_requests() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(1000)))
    for number in range(1000, 1000 + 5 * LIST_EVERY):
        store.put_many(page(number))
    fresh = PackStore(objects)
    made = spent(objects, lambda: fresh.get_many(list(pages(range(300, 310)))))
    assert made["LIST"] == 1
    assert made["GET"] <= 1 + 5, "a list or two, and the pack"
    last = 1000 + 5 * LIST_EVERY - 1
    assert sum(spent(objects, lambda: fresh.get_many(list(page(last)))).values()) <= 1


def test_packs_of_many_processes_come_into_a_list() -> None:
    objects = MemoryObjects()
    for number in range(MOST_UNLISTED):
        PackStore(objects).put_many(page(number))
    last = PackStore(objects)
    assert last.get_many(list(page(0))) == list(page(0).values())
    last.put_many(page(MOST_UNLISTED))
    made = spent(objects, lambda: PackStore(objects).get_many(list(page(7))))
    assert made == {"LIST": 1, "GET": 2}, "a listing, the list, and the page"


def test_a_process_lists_again_only_for_a_page_it_does_not_know() -> None:
    objects = MemoryObjects()
    one, other = PackStore(objects), PackStore(objects)
    one.put_many(page(1))
    assert other.get_many(list(page(1))) == list(page(1).values())
    one.put_many(page(2))
    made = spent(objects, lambda: other.get_many(list(page(1))))
    assert made == {}
    made = spent(objects, lambda: other.get_many(list(page(2))))
    assert made == {"LIST": 1, "GET": 1}, "a listing, and a pack that is read whole"


def test_a_pack_is_removed_once_all_its_pages_are_deleted() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(3)))
    (first,) = objects.objects
    store.delete_many(pages(range(2)))
    store.close()
    assert first in objects.objects
    store = PackStore(objects)
    store.delete_many(page(2))
    store.close()
    assert objects.objects == {}


def test_what_a_pack_says_of_another_outlives_it() -> None:
    """Its pages are deleted first, but it alone says which page of the other one is deleted."""
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(2)))
    store.delete_many(page(0))
    store.put_many(page(2))
    store.delete_many(page(2))
    store.close()
    assert sorted(PackStore(objects).keys()) == list(page(1))
    assert PackStore(objects).get_many(list(page(0))) == [None]


def test_a_page_put_again_after_its_delete_stays() -> None:
    store = PackStore(objects := MemoryObjects())
    for _ in range(3):
        store.put_many(pages(range(2)))
        store.delete_many(page(0))
    store.put_many(page(0))
    store.flush()
    assert PackStore(objects).get_many(list(page(0))) == list(page(0).values())


def test_every_copy_of_a_page_is_deleted() -> None:
    objects = MemoryObjects()
    one, other = PackStore(objects), PackStore(objects)
    one.put_many(page(1))
    other.put_many(pages([1, 2]))
    third = PackStore(objects)
    third.delete_many(page(1))
    third.close()
    assert list(PackStore(objects).keys()) == list(page(2))


def test_many_processes_agree_in_the_end() -> None:
    """Four processes put and delete pages of their own, and see all others'."""
    objects, random = MemoryObjects(), Random(5)
    stores = [PackStore(objects) for _ in range(4)]
    there: dict[str, bytes] = {}
    for turn in range(400):
        at = random.randrange(4)
        mine = [key for key in there if key.startswith(f"w/{at}/")]
        for key in random.sample(mine, min(len(mine), random.randrange(3))):
            stores[at].delete_many([key])
            del there[key]
        new = {f"w/{at}/{turn}/{i}": bytes([turn % 256]) for i in range(random.randrange(3))}
        stores[at].put_many(new)
        there |= new
        if turn % 10 == 0:
            stores[at].flush()
            key = random.choice(list(there))
            assert stores[random.randrange(4)].get_many([key]) == [there[key]]
    for store in stores:
        store.close()
    assert sorted(PackStore(objects).keys()) == sorted(there)
    assert PackStore(objects).get_many(list(there)) == list(there.values())


class Killed(BaseException):
    """The process ends here."""


def killed_at(number: int, when: str) -> tuple[MemoryObjects, dict[str, bytes], set[str]]:
    """A stream that is killed at its request with this number; the pages flushed, and deleted."""
    objects = MemoryObjects()
    left = count(1)

    def strike(kind: str, names: Sequence[str]) -> None:
        if kind in ("PUT", "DELETE") and next(left) == number:
            raise Killed

    setattr(objects, when, strike)
    store, flushed, deleted = PackStore(objects), dict[str, bytes](), set[str]()
    try:
        for turn in range(LIST_EVERY + REMOVE_AT):
            store.delete_many(page(turn - 5))
            deleted |= page(turn - 5).keys()
            store.put_many({**page(turn), f"w/1/{turn // 30}": b"long" * 10})
            flushed |= {**page(turn), f"w/1/{turn // 30}": b"long" * 10}
    except Killed:
        pass
    objects.before = objects.after = lambda kind, names: None
    return objects, {key: p for key, p in flushed.items() if key not in deleted}, deleted


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_request_loses_nothing_that_was_put(when: str) -> None:
    for number in range(1, LIST_EVERY + REMOVE_AT + 8):
        objects, flushed, _ = killed_at(number, when)
        again = PackStore(objects)
        assert again.get_many(list(flushed)) == list(flushed.values())
        again.delete_many(list(again.keys()))
        again.close()
        assert objects.objects == {}, "what a killed process leaves is removed later"


def test_a_lost_answer_to_a_put_leaves_nothing_behind() -> None:
    store = PackStore(objects := MemoryObjects())

    def lose(kind: str, names: Sequence[str]) -> None:
        if kind == "PUT":
            raise StoreUnavailable("the answer is lost")

    objects.after = lose
    with pytest.raises(StoreUnavailable):
        store.put_many(page(1))
    objects.after = lambda kind, names: None
    assert len(objects.objects) == 1, "it was stored"
    store.put_many(page(1))
    store.close()
    assert len(objects.objects) == 1
    assert PackStore(objects).get_many(list(page(1))) == list(page(1).values())


def test_deletes_of_a_put_that_failed_come_with_the_next_one() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(3)))
    store.delete_many(page(0))

    def fail(kind: str, names: Sequence[str]) -> None:
        raise StoreUnavailable("no")

    objects.before = fail
    with pytest.raises(StoreUnavailable):
        store.put_many(page(3))
    objects.before = lambda kind, names: None
    store.put_many(page(4))
    assert PackStore(objects).get_many(list(page(0))) == [None]


def test_who_may_not_remove_objects_may_still_write(caplog: pytest.LogCaptureFixture) -> None:
    objects = MemoryObjects()

    def refuse(kind: str, names: Sequence[str]) -> None:
        if kind == "DELETE":
            raise StoreAccessDenied("no right to delete")

    objects.before = refuse
    store = PackStore(objects)
    slide(store, 0, WINDOW + 2 * REMOVE_AT)
    assert "no right to delete" in caplog.text
    newest = page(WINDOW + 2 * REMOVE_AT - 1)
    assert store.get_many(list(newest)) == list(newest.values())


def test_a_list_that_was_replaced_under_a_reader_is_no_error() -> None:
    store = PackStore(objects := MemoryObjects())
    slide(store, 0, LIST_EVERY, window=1000)
    (old,) = [name for name in objects.objects if name.endswith(".list")]

    def replace_it(kind: str, names: Sequence[str]) -> None:
        if names == [old]:
            objects.before = lambda kind, names: None
            store.compact()

    objects.before = replace_it
    assert len(list(PackStore(objects).keys())) == LIST_EVERY
    assert old not in objects.objects


@pytest.mark.parametrize("known", [False, True])
def test_a_page_that_replaced_another_since_the_listing_is_found(known: bool) -> None:
    """As the head of published windows does, of which a reader lists the newest."""
    objects = MemoryObjects()
    store, reader = PackStore(objects), PackStore(objects)
    store.put_many(page(0))
    assert known is False or [*reader.keys()] == [*page(0)]
    store.put_many(page(1))
    replacing = iter([2, 3])

    def replace_it(kind: str, names: Sequence[str]) -> None:
        number = next(replacing, 0) if kind == "GET" else 0
        if number:
            store.put_many(page(number))
            store.delete_many([*page(0), *page(number - 1)])
            store.flush()  # which removes the objects

    objects.before = replace_it
    assert [*reader.keys()] == [*page(3)]


def test_a_reader_finds_pages_that_were_moved_meanwhile() -> None:
    objects = MemoryObjects()
    store, reader = PackStore(objects), PackStore(objects)
    slide(store, 0, 20, window=1000)
    assert reader.get_many(list(page(3))) == list(page(3).values())
    PackStore(objects).compact()
    assert reader.get_many(list(pages(range(20)))) == list(pages(range(20)).values())


def test_a_damaged_pack_is_named_only_for_pages_that_may_be_in_it() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(page(1))
    store.put_many(page(2))
    name = next(iter(objects.objects))
    objects.objects[name] = objects.objects[name][:-1] + b"x"
    fresh = PackStore(objects)
    assert fresh.get_many(list(page(2))) == list(page(2).values())
    with pytest.raises(StoreDamaged, match=name):
        fresh.get_many(list(page(1)))
    with pytest.raises(StoreDamaged, match="Restore a copy"):
        list(fresh.keys())


def test_a_damaged_list_costs_requests_alone() -> None:
    objects = MemoryObjects()
    slide(PackStore(objects), 0, LIST_EVERY, window=1000)
    (name,) = [name for name in objects.objects if name.endswith(".list")]
    objects.objects[name] = b"damaged"
    assert len(list(PackStore(objects).keys())) == LIST_EVERY


def test_late_listings_are_waited_for() -> None:
    objects = MemoryObjects(list_delay=0.1)
    one, other = PackStore(objects, list_delay=0.5), PackStore(objects, list_delay=0.5)
    assert other.get_many(list(page(0))) == [None]
    one.put_many(page(0))
    assert one.get_many(list(page(0))) == list(page(0).values())
    assert list(one.keys()) == list(page(0)), "its own page, though no listing has it yet"
    assert other.get_many(list(page(0))) == list(page(0).values())


def test_a_late_listing_of_what_is_gone_brings_nothing_back() -> None:
    objects = MemoryObjects(list_delay=60)
    store = PackStore(objects)
    store.put_many(page(0))
    store.delete_many(page(0))
    store.flush()
    assert objects.objects == {}
    assert list(store.keys()) == []
    assert PackStore(objects).get_many(list(page(0))) == [None]


def test_compaction_leaves_few_objects_and_every_page() -> None:
    store = PackStore(objects := MemoryObjects())
    for number in range(100):
        store.put_many(pages(range(10 * number, 10 * number + 10)))
    store.delete_many(pages(number for number in range(1000) if number % 10))
    store.flush()
    before = sum(map(len, objects.objects.values()))
    store.compact()
    kept = pages(range(0, 1000, 10))
    assert len(objects.objects) == 2, "a pack and a list"
    assert sum(map(len, objects.objects.values())) < before / 5
    assert store.get_many(list(kept)) == list(kept.values())
    assert sorted(PackStore(objects).keys()) == sorted(kept)
    assert spent(objects, PackStore(objects).compact).get("PUT", 0) <= 1, "nothing is left to do"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_during_compaction_loses_nothing(when: str) -> None:
    kept = pages(range(0, 100, 5))
    for number in count(1):
        objects = MemoryObjects()
        store = PackStore(objects)
        for at in range(10):
            store.put_many(pages(range(10 * at, 10 * at + 10)))
        store.delete_many(pages(n for n in range(100) if n % 5))
        store.flush()
        left = count(1)

        def strike(
            kind: str, names: Sequence[str], left: count[int] = left, number: int = number
        ) -> None:
            if next(left) == number:
                raise Killed

        setattr(objects, when, strike)
        try:
            store.compact()
        except Killed:
            objects.before = objects.after = lambda kind, names: None
            assert sorted(PackStore(objects).keys()) == sorted(kept)
            assert PackStore(objects).get_many(list(kept)) == list(kept.values())
        else:
            break
    assert number > 3


def test_a_page_that_a_compaction_left_twice_is_deleted_everywhere() -> None:
    store = PackStore(objects := MemoryObjects())
    store.put_many(pages(range(10)))
    store.put_many(page(10))
    store.delete_many(pages(range(6)))
    store.flush()

    def strike(kind: str, names: Sequence[str]) -> None:
        if kind == "DELETE":
            raise Killed

    objects.before = strike
    with pytest.raises(Killed):
        store.compact()
    objects.before = lambda kind, names: None
    again = PackStore(objects)
    again.delete_many(page(8))
    again.flush()
    again.compact()
    assert sorted(PackStore(objects).keys()) == sorted(pages([6, 7, 9, 10]))
