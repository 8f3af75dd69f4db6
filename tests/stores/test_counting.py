"""Counts outside and inside a buffer."""

from stores.memory import MemoryStore
from stores.testing.counting import CallCount, CountingStore
from stores.write_buffer import WriteBuffer


def test_every_operation_is_counted() -> None:
    with CountingStore(MemoryStore()) as store:
        store.put_many({"g/1": b"abc", "g/2": b"de"})
        store.get_many(["g/1", "g/9", "g/2"])
        store.delete_many(iter(["g/1"]))
        store.prefetch(["g/2", "g/3"])
        assert list(store.keys("g/")) == ["g/2"]
        store.flush()
        assert store.counts.put == CallCount(1, 2, 5)
        assert store.counts.get == CallCount(1, 3, 5)
        assert store.counts.missing == 1
        assert store.counts.delete == CallCount(1, 1, 0)
        assert store.counts.prefetch == CallCount(1, 2, 0)
        assert store.counts.keys == CallCount(1, 1, 0)
        assert store.counts.flush == CallCount(1, 0, 0)
        before = store.reset()
        assert before.put.pages == 2
        assert store.counts.put == CallCount()


def test_outermost_and_innermost() -> None:
    inner = CountingStore(MemoryStore())
    outer = CountingStore(WriteBuffer(inner))
    for i in range(10):
        outer.put_many({f"g/{i}": b"page"})
    outer.get_many(["g/3"])
    outer.flush()
    assert outer.counts.put.calls == outer.counts.put.pages == 10
    assert inner.counts.put.pages == 10
    assert inner.counts.put.calls <= 2
    assert inner.counts.get.calls == 0 or outer.counts.get.calls == 1
    outer.close()
