"""The part of the conformance suite about pages and keys, for one user at a time."""

from __future__ import annotations

import os
import time
import traceback
from unittest import SkipTest

from stores.errors import InvalidKey, PageTooLarge, StoreClosed, UnsupportedOperation
from stores.testing.conformance_hooks import ConformanceHooks, comes_to_hand, raises


class _Huge(bytes):
    """A page that says it has a length that no test could hold."""

    def __len__(self) -> int:
        return 1 << 40


class PageTests(ConformanceHooks):
    """Round trips, deletes, keys, limits."""

    # Round trips

    def test_what_was_put_is_got(self) -> None:
        pages = self.pages(50)
        with self.open() as store:
            store.put_many(pages)
            assert store.get_many(list(pages)) == list(pages.values())
            for key, page in pages.items():
                assert store.get_many([key]) == [page]

    def test_pages_come_in_the_order_of_the_keys(self) -> None:
        pages = self.pages(20)
        with self.open() as store:
            store.put_many(pages)
            for keys in (sorted(pages), sorted(pages, reverse=True), list(pages)):
                assert store.get_many(keys) == [pages[key] for key in keys]

    def test_a_key_may_be_asked_twice(self) -> None:
        (key, page), (other, second) = self.pages(2).items()
        with self.open() as store:
            store.put_many({key: page, other: second})
            assert store.get_many([key, other, key]) == [page, second, page]

    def test_a_missing_page_is_none(self) -> None:
        pages = self.pages(2)
        first, last = pages
        with self.open() as store:
            store.put_many(pages)
            asked = [f"{self.group}/no", first, f"{self.group}/none", last]
            assert store.get_many(asked) == [None, pages[first], None, pages[last]]

    def test_a_missing_page_can_appear(self) -> None:
        key = f"{self.group}/late"
        with self.open() as store:
            assert store.get_many([key]) == [None]
            store.put_many({key: b"here"})
            assert store.get_many([key]) == [b"here"]

    def test_empty_batches_do_nothing(self) -> None:
        with self.open() as store:
            store.put_many({})
            store.delete_many([])
            store.prefetch([])
            assert store.get_many([]) == []

    def test_a_page_can_be_put_again(self) -> None:
        pages = self.pages(5)
        with self.open() as store:
            store.put_many(pages)
            store.put_many(pages)
            store.flush()
            store.put_many(pages)
            assert store.get_many(list(pages)) == list(pages.values())
            self.assert_keys(store, f"{self.group}/", pages)

    def test_every_byte_is_kept(self) -> None:
        every = bytes(range(256))
        pages = {
            f"{self.group}/{i}": page
            for i, page in enumerate([every, every[::-1], b"\0", b"\0\0a\0", b"\xff\xfe", b"\r\n"])
        }
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            found = store.get_many(list(pages))
            assert found == list(pages.values())
            assert all(type(page) is bytes for page in found)

    def test_an_empty_page_is_a_page(self) -> None:
        key = f"{self.group}/empty"
        with self.open() as store:
            store.put_many({key: b""})
            store.flush()
            assert store.get_many([key]) == [b""]

    def test_pages_of_many_sizes(self) -> None:
        sizes = [1, 4079, 4080, 4081, 4096, 65_535, 65_536, 1 << 20, 4 << 20]
        with self.open() as store:
            limit = store.capabilities.max_page_bytes
            pages = {f"{self.group}/{n}": os.urandom(n) for n in sizes if n <= limit}
            if limit <= 64 << 20:
                pages[f"{self.group}/limit"] = os.urandom(limit)
            store.put_many(pages)
            store.flush()
            assert store.get_many(list(pages)) == list(pages.values())

    def test_a_large_batch(self) -> None:
        pages = self.pages(3000, size=2000)
        with self.open() as store:
            store.put_many(pages)
            assert store.get_many(list(pages)) == list(pages.values())
            self.assert_keys(store, self.group, pages)
            store.delete_many(pages)
            self.assert_keys(store, self.group, [])

    # Deletes

    def test_a_deleted_page_is_gone(self) -> None:
        pages = self.pages(10)
        gone = list(pages)[:5]
        with self.open() as store:
            store.put_many(pages)
            assert store.get_many(gone) == [pages[key] for key in gone]
            store.delete_many(iter(gone))
            assert store.get_many(gone) == [None] * 5
            store.flush()
            assert store.get_many(gone) == [None] * 5
            self.assert_keys(store, f"{self.group}/", set(pages) - set(gone))
            assert store.get_many(list(pages)[5:]) == list(pages.values())[5:]

    def test_deleting_again_is_harmless(self) -> None:
        pages = self.pages(3)
        with self.open() as store:
            store.delete_many(pages)
            store.put_many(pages)
            store.delete_many(pages)
            store.delete_many(pages)
            store.flush()
            assert store.get_many(list(pages)) == [None] * 3

    def test_the_last_of_put_and_delete_counts(self) -> None:
        key, page = f"{self.group}/x", b"page"
        with self.open() as store:
            for _ in range(20):
                store.put_many({key: page})
                store.delete_many([key])
            assert store.get_many([key]) == [None]
            store.put_many({key: page})
            store.flush()
            store.delete_many([key])
            store.put_many({key: page})
            assert store.get_many([key]) == [page]
            store.flush()
            assert store.get_many([key]) == [page]

    # Keys

    def test_a_store_lists_its_keys_or_says_that_it_cannot(self) -> None:
        with self.open() as store:
            if self.lists:
                assert list(store.keys(self.group)) == []
                return
            with raises(UnsupportedOperation):
                list(store.keys(self.group))

    def test_keys_by_prefix(self) -> None:
        if not self.lists:
            raise SkipTest("the server cannot list its keys")
        group = self.group
        keys = [f"{group}/0/a", f"{group}/0/b", f"{group}/1/a", f"{group}x/0/a"]
        with self.open() as store:
            store.put_many(dict.fromkeys(keys, b"page"))
            assert sorted(store.keys(f"{group}/0/")) == keys[:2]
            assert sorted(store.keys(f"{group}/")) == keys[:3]
            assert sorted(store.keys(group)) == sorted(keys)
            assert list(store.keys(f"{group}/2")) == []
            assert set(keys) <= set(store.keys())

    def test_keys_of_odd_characters(self) -> None:
        odd = [
            f"{self.group}/{text}" for text in ("*", "?", "[a]", "a b", "{t}", "\\", "%2F", "a/b/")
        ]
        odd += [f"{self.group}-{text}/x" for text in ("{", "}", "{}", "*", "a:b")]
        odd += [f"{self.group}-no-slash"]
        pages = {key: key.encode() for key in odd}
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            assert store.get_many(odd) == list(pages.values())
            if not self.lists:
                return
            for key in odd:
                assert key in list(store.keys(key))
            assert sorted(store.keys(f"{self.group}/*")) == [f"{self.group}/*"]
            assert sorted(store.keys(self.group)) == sorted(odd)

    def test_keys_can_be_swept(self) -> None:
        if not self.lists:
            raise SkipTest("the server cannot list its keys")
        pages = self.pages(1100, size=10)
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            for key in store.keys(f"{self.group}/"):
                store.delete_many([key])
            assert list(store.keys(f"{self.group}/")) == []

    def test_the_longest_key(self) -> None:
        with self.open() as store:
            limit = store.capabilities.max_key_bytes
            longest = f"{self.group}/".ljust(limit, "k")
            store.put_many({longest: b"page"})
            store.flush()
            assert store.get_many([longest]) == [b"page"]

    def test_a_key_that_cannot_be_stored_is_refused(self) -> None:
        good = f"{self.group}/good"
        with self.open() as store:
            too_long = f"{self.group}/".ljust(store.capabilities.max_key_bytes + 1, "k")
            for bad in ("", too_long, f"{self.group}/ü", f"{self.group}/\u2028"):
                with raises(InvalidKey):
                    store.put_many({good: b"page", bad: b"page"})
                with raises(InvalidKey):
                    store.get_many([good, bad])
                with raises(InvalidKey):
                    store.delete_many([bad])
            assert store.get_many([good]) == [None], "a refused batch was stored in part"

    def test_a_page_that_is_too_large_is_refused(self) -> None:
        good = f"{self.group}/good"
        with self.open() as store:
            with raises(PageTooLarge):
                store.put_many({good: b"page", f"{self.group}/huge": _Huge()})
            assert store.get_many([good]) == [None], "a refused batch was stored in part"

    # Hints, limits, addresses

    def test_prefetch_is_only_a_hint(self) -> None:
        pages = self.pages(40)
        keys = list(pages)
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            for i, key in enumerate(keys):
                store.prefetch([*keys[i : i + 3], f"{self.group}/none", ""])
                assert store.get_many([key]) == [pages[key]]
            store.prefetch(keys * 50)
            store.delete_many(keys)
            assert store.get_many(keys) == [None] * len(keys)

    def test_a_peek_is_never_out_of_date(self) -> None:
        pages = self.pages(5)
        with self.open() as store:
            assert [store.peek(key) for key in pages] == [None] * 5
            store.put_many(pages)
            store.prefetch(list(pages))
            assert store.get_many(list(pages)) == list(pages.values())
            for key, page in pages.items():
                assert store.peek(key) in (None, page)
            store.delete_many(list(pages))
            assert [store.peek(key) for key in pages] == [None] * 5

    def test_a_peek_never_fails(self) -> None:
        (key,) = self.pages(1)
        store = self.open()
        too_long = f"{self.group}/".ljust(store.capabilities.max_key_bytes + 1, "k")
        for bad in ("", too_long, f"{self.group}/ü"):
            assert store.peek(bad) is None
        store.put_many(self.pages(1))
        store.flush()
        assert store.get_many([key]) == [self.pages(1)[key]]
        store.close()
        assert store.peek(key) is None, "a closed store has nothing at hand"

    def test_a_peek_makes_no_store_call(self) -> None:
        if not self.reopens:
            raise SkipTest("pages belong to one connection")
        pages = self.pages(3)
        with self.open() as store, self.open() as other:
            if not store.capabilities.remote:
                raise SkipTest("a page here needs no call to be at hand")
            store.put_many(pages)
            store.flush()
            assert [other.peek(key) for key in pages] == [None] * 3, "only the server can know"
            assert other.get_many(list(pages)) == list(pages.values()), "a peek is no answer"

    def test_what_is_read_ahead_comes_to_hand(self) -> None:
        ((key, page),) = self.pages(1).items()
        with self.open() as store:
            if store.capabilities.read_ahead < len(page):
                raise SkipTest("the store does not read ahead")
            store.put_many({key: page})
            store.flush()
            assert comes_to_hand(store, key), "a prefetched page never came to hand"
            assert store.peek(key) == page and type(store.peek(key)) is bytes
            assert store.get_many([key]) == [page]

    def test_a_page_on_its_way_does_not_outlive_its_delete(self) -> None:
        ((key, page),) = self.pages(1).items()
        with self.open() as store:
            for turn in range(50):
                store.put_many({key: page})
                store.flush()
                store.prefetch([key])
                time.sleep(0.0002 * (turn % 5))  # under way, or landed
                store.delete_many([key])
                for _ in range(5):
                    assert store.peek(key) is None
                    assert store.get_many([key]) == [None]
                    time.sleep(0.0002)

    def test_capabilities_and_address(self) -> None:
        with self.open() as store:
            assert store.capabilities == store.capabilities
            assert store.capabilities.max_key_bytes >= 200, "too short for the keys of windows"
            assert store.capabilities.max_page_bytes >= 1 << 16
            assert "://" in store.url
            assert isinstance(store.origin, str)

    def test_credentials_are_not_shown(self) -> None:
        with self.open() as store:
            shown = [store.url, repr(store), str(store)]
            try:
                store.get_many([""])
            except InvalidKey:
                shown.append(traceback.format_exc())
        try:
            store.put_many({f"{self.group}/x": b""})
        except StoreClosed:
            shown.append(traceback.format_exc())
        for secret in self.secrets:
            assert not any(secret in text for text in shown)
