"""The cache drops the least recently used entries, and its size is that of what it has."""

from __future__ import annotations

from copy import copy
from random import Random

from stores.lru import LRU


def test_it_has_the_most_recently_used_values_that_fit() -> None:
    """Against a list of the values, the least recently used first."""
    random, cache, known = Random(1), LRU[int, bytes](100, 5), list[tuple[int, bytes]]()
    for _ in range(5000):
        key, choice = random.randrange(30), random.random()
        of_key = next((value for each, value in known if each == key), None)
        if choice < 0.5:
            assert cache.get(key) == of_key
        elif choice < 0.6:
            assert cache.pop(key) == of_key
        else:
            of_key = bytes(random.randrange(40))
            cache.put(key, of_key)
        known = [(each, value) for each, value in known if each != key]
        if of_key is not None and not 0.5 <= choice < 0.6:
            known.append((key, of_key))
        while sum(len(value) + 5 for _, value in known) > 100:
            del known[0]
        assert cache.size == sum(len(value) + 5 for _, value in known)
        assert len(cache) == len(known) and all(each in cache for each, _ in known)
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def test_a_value_larger_than_the_cache_drops_only_its_own_key() -> None:
    cache = LRU[str, bytes](10)
    cache.put("a", b"1234")
    cache.put("b", b"5")
    cache.put("b", bytes(11))
    assert cache.get("a") == b"1234" and cache.get("b") is None


def test_entries_are_counted_if_nothing_weighs_them() -> None:
    cache = LRU[str, int].of(2)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    before = copy(cache)
    assert (cache.values(), cache.size, cache.peek("b"), cache.peek("a")) == ([1, 2], 2, 1, None)
    cache.shrink(1)
    assert (cache.values(), cache.size) == ([2], 1) and before.values() == [1, 2]
