"""FiBA's pages and its part of the snapshot, byte by byte, as the files in ``golden`` pin them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mta import CountWindow, Max, Product, Sum, TimeWindow, Window
from mta.algorithms import FiBA
from mta.audit import describe_snapshot
from mta.audit.walk import audit, live_keys
from mta.snapshots import Snapshot
from stores.memory import MemoryStore
from tests.support.naive import CrowdedFiBA, joined, pages_of

GOLDEN = Path(__file__).parent / "golden"


def numbers(store: MemoryStore) -> Window:
    """Late numbers, and two snapshots, so that there are notes of retired pages."""
    window = Window(
        Max(), CountWindow(20), store, "numbers", arity=2, leaf_arity=3, aggregator=CrowdedFiBA,
        allowed_lateness=20, on_late="drop",
    )  # fmt: skip
    window.extend([0.5 * (7 * i % 23) for i in range(40)], [(i * 7) % 31 for i in range(40)])
    window.checkpoint()
    window.extend([1.5, 2.5, 99.0, 3.5], [40, 25, 5, 41])
    return window


def texts(store: MemoryStore) -> Window:
    """A product with texts, by time."""
    product = Product({"sum": ("n", Sum("int64")), "text": ("t", joined())})
    window = Window(
        product, TimeWindow(12), store, "texts", arity=2, leaf_arity=2, aggregator=CrowdedFiBA,
        allowed_lateness=5,
    )  # fmt: skip
    batch = {"n": list(range(20)), "t": list("abcdefghijklmnopqrst")}
    window.extend(batch, [i - 3 * (i % 4 == 3) for i in range(20)])
    return window


def parted(store: MemoryStore) -> Window:
    """A leaf of more events than a part has: some have left, and one came late."""
    window = Window(
        joined(), CountWindow(700), store, "parted", leaf_arity=600, arity=2, aggregator=FiBA,
        allowed_lateness=100,
    )  # fmt: skip
    letters = [chr(97 + i % 26) for i in range(1000)]
    window.extend(letters[:690], range(690), emit="last")
    window.checkpoint()
    window.extend([*letters[690:], "!"], [*range(690, 1000), 910], emit="last")
    return window


MAKE = {"numbers": numbers, "texts": texts, "parted": parted}


def golden_pages(folder: str) -> dict[str, bytes]:
    """Each file is a page, its name the key with _ for /."""
    files = sorted((GOLDEN / folder).glob("*.page"))
    return {file.stem.replace("_", "/"): file.read_bytes() for file in files}


def golden_snapshot(name: str) -> bytes:
    return (GOLDEN / name / "snapshot").read_bytes()


@pytest.mark.parametrize("name", MAKE)
def test_what_is_written_is_pinned(name: str) -> None:
    store = MemoryStore()
    snapshot = MAKE[name](store).checkpoint()
    pinned = golden_pages(name)
    assert snapshot == golden_snapshot(name)
    assert pages_of(store) == pinned
    has_inner_page = any(key.split("/")[1] == "1" for key in pinned)
    assert has_inner_page == (name != "parted") == (Snapshot.decode(snapshot).state[6] == [])


@pytest.mark.parametrize("name", MAKE)
def test_what_is_pinned_can_be_read(name: str) -> None:
    store = MemoryStore()
    store.put_many(golden_pages(name))
    written: Any = MAKE[name](MemoryStore())
    known = {"aggregations": written.monoid, "window": written.frame, "aggregator": FiBA}
    window: Any = Window.restore(golden_snapshot(name), store, **known)
    window.check()
    assert not audit(window).damaged
    for count in range(len(written)):
        assert repr(window.query()) == repr(written.query()), count
        window.evict()
        written.evict()


def test_what_is_left_of_a_level_may_be_a_single_subtree() -> None:
    """A cut may leave an inner node at the left end no entry: its page holds zeros for one."""
    for monoid in (Max(), Product({"sum": ("n", Sum("int64")), "text": ("t", joined())})):
        alone = 0
        for count in range(1, 60):
            names = []
            for _ in range(2):  # with the same bytes each time
                store = MemoryStore()
                window: Any = Window(
                    monoid, CountWindow(60), store, "w", arity=2, leaf_arity=2, aggregator=FiBA
                )
                values: Any = list(range(60))
                if not isinstance(monoid, Max):
                    values = {"n": values, "t": list("abcdefghijkl" * 5)}
                window.extend(values, range(60))
                window.evict(count)
                snapshot = window.checkpoint()
                names.append(sorted(store.keys()))
            assert names[0] == names[1]
            nodes = window.structure().tree.nodes()
            alone += any(node.level and not node.count for node in nodes)
            restored: Any = window.restore_like(snapshot)
            restored.check()
            assert not audit(restored).damaged
            assert repr(restored.query()) == repr(window.query())
            assert set(live_keys(restored)) == set(store.keys())
            restored.evict()
            window.evict()
            assert repr(restored.query()) == repr(window.query())
        assert alone > 10


def test_a_golden_snapshot_describes_itself() -> None:
    summary = describe_snapshot(golden_snapshot("numbers"))
    assert (summary.algorithm, summary.events, summary.last_time) == ("FiBA", 20, 41_000_000)
    assert summary.late == 1 and summary.back == 43 and summary.pages > 0
