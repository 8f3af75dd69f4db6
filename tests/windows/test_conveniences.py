"""Small things at the door: classes, paths, contexts, notebooks, units."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mta import (
    CountWindow,
    KeyedWindows,
    Max,
    OnDemand,
    Product,
    SharedWindows,
    SlicedWindow,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.errors import MissingPage
from stores import MemoryStore, StoreClosed, StoreUnavailable, open_store

HOUR = TimeWindow("1 hour")


@pytest.mark.parametrize(
    "make",
    [lambda: Window(Max, CountWindow(2)),  # type: ignore[arg-type]
     lambda: SharedWindows(Max, {"a": CountWindow(2)}),  # type: ignore[arg-type]
     lambda: KeyedWindows(Max, CountWindow(2)),  # type: ignore[arg-type]
     lambda: SlicedWindow(Max, HOUR),  # type: ignore[arg-type]
     lambda: Product({"top": ("w", Max)})],  # type: ignore[dict-item]
)  # fmt: skip
def test_a_class_in_place_of_a_monoid(make: Any) -> None:
    with pytest.raises(TypeError, match=r"Max is a class: write Max\(\)"):
        make()
    with pytest.raises(TypeError, match="CountWindow is a class: write its size too"):
        Window(Max(), CountWindow)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pages", "pages of 100% #1 ?"])
def test_a_path_is_a_store(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    window = Window(Max(), CountWindow(2), Path(name), "w")
    window.extend([1.0, 3.0, 2.0])
    snapshot = window.checkpoint()
    window.close()
    assert (
        Window.restore(snapshot, tmp_path / name, aggregations=Max(), window=CountWindow(2)).query()
        == 3.0
    )
    shared = SharedWindows(Max(), {"a": CountWindow(2)}, Path(name), "s")
    keyed = KeyedWindows(Max(), CountWindow(2), Path(name), "k")
    assert shared.store is not None and keyed.store is not None
    assert shared.store.url == keyed.store.url
    with open_store(tmp_path / name) as store:
        assert store.url == shared.store.url
    for each in (shared, keyed):
        each.close()


@pytest.mark.parametrize("store", [5, b"file:///x", object()])
def test_what_is_no_store(store: Any) -> None:
    for make in (Window, KeyedWindows):
        with pytest.raises(TypeError, match="a store is a URL, a Path, an open store, or None"):
            make(Max(), CountWindow(2), store)


def test_a_window_is_a_context(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/pages"
    makes: list[Any] = [
        lambda store: Window(Max(), CountWindow(2), store, "w"),
        lambda store: SharedWindows(Max(), {"a": CountWindow(2)}, store, "s"),
        lambda store: KeyedWindows(Max(), CountWindow(2), store, "k"),
        lambda store: SlicedWindow(Max(), CountWindow(4), 2, store, "t"),
        lambda store: TriggeredWindow(Window(Max(), CountWindow(2), store, "o"), OnDemand()),
    ]
    for make in makes:
        with make(url) as window:
            inside = getattr(window, "store", None) or window.engine.store
            inside.put_many({"0": b"1"})
        with pytest.raises(StoreClosed):
            inside.get_many(["0"])
        mine = MemoryStore()
        with pytest.raises(ZeroDivisionError), make(mine) as window:
            raise ZeroDivisionError
        mine.put_many({"0": b"1"})  # a store that was open stays so


@pytest.mark.parametrize("url", [None, "memory://", "file", "mine"])
def test_a_closed_window_takes_no_call(url: str | None, tmp_path: Path) -> None:
    """Whatever its store, and whether or not the store is closed with it."""
    mine = MemoryStore()
    store: Any = {"file": f"file://{tmp_path}/pages", "mine": mine}.get(url or "", url)
    single = [("insert", 2.0, 6.0), ("insert", 2, 6), ("extend", [1.0], [7])]
    of_window = [("evict",), ("query", {"at": 7}), ("range", 0, 9), ("retract", 5.0)]
    cases: list[tuple[Any, list[Any]]] = [
        (Window(Max(), HOUR, store, "w"), [*single, ("query",), ("evict",), ("range", 0, 9)]),
        (Window(Max(), HOUR, store, "l", allowed_lateness=5), [*single, ("query",), *of_window]),
        (SharedWindows(Max(), {"a": HOUR}, store, "s"), [*single, ("query",)]),
        (SharedWindows(Max(), {"a": HOUR}, store, "m", allowed_lateness=5), [*single, ("query",)]),
        (SlicedWindow(Max(), CountWindow(4), 2, store, "t"), [("insert", 2.0), ("extend", [1.0])]),
        (TriggeredWindow(Window(Max(), HOUR, store, "o"), OnDemand()), [*single, ("query",)]),
        (
            KeyedWindows(Max(), HOUR, store, "k", allowed_lateness=5),
            [("extend", "a", [1.0], [6]), ("query", "a"), ("retract", "a", 5), ("expire", 9)],
        ),
    ]
    for window, calls in cases:
        window.close()
        window.close()
        for name, *given in [*calls, ("checkpoint",), ("check",)]:
            named = given.pop() if given and isinstance(given[-1], dict) else {}
            with pytest.raises(StoreClosed, match="was closed"):
                getattr(window, name)(*given, **named)
    mine.put_many({"0": b"1"})  # a store that was open stays so


def test_a_snapshot_of_pages_in_the_memory_of_another_process_is_refused_at_once() -> None:
    """Not at the first call that needs a page, which may be much later."""
    values, times = [float(at) for at in range(9000)], [*range(9000)]
    day = TimeWindow("1 day")
    cases: list[tuple[Any, Callable[..., Any]]] = [
        (Window(Max(), day, name="w"), lambda s: Window.restore(s, aggregations=Max(), window=day)),
        (Window(Max(), day, name="l", allowed_lateness=5),
         lambda s: Window.restore(s, aggregations=Max(), window=day, allowed_lateness=5)),
        (SharedWindows(Max(), {"a": day}, name="s"),
         lambda s: SharedWindows.restore(s, aggregations=Max(), window={"a": day})),
        (TriggeredWindow(Window(Max(), day, name="o"), OnDemand()),
         TriggeredWindow.restore),
        (KeyedWindows(Max(), day, name="k"), KeyedWindows.restore),
    ]  # fmt: skip
    for window, restore in cases:
        keys = ([f"{at}" for at in times],) if isinstance(window, KeyedWindows) else ()
        window.extend(*keys, values, times)
        with pytest.raises(MissingPage, match=r"the process that wrote them alone.*use file://"):
            restore(window.checkpoint())
    few = Window(Max(), day, name="few")
    few.extend(values[:9], times[:9])  # all of it is in the snapshot
    assert Window.restore(few.checkpoint(), aggregations=Max(), window=day).query() == 8.0


def test_a_notebook_shows_the_current_result_and_sizes_in_peoples_units() -> None:
    window = Window(Max(), HOUR, name="w")
    window.extend([1.5] * 12_345, [0] * 12_345)
    shared = SharedWindows(Max(), {"a<b": HOUR}, name="s")
    shared.insert(2.0, 0)
    keyed = KeyedWindows(Max(), HOUR, name="k")
    keyed.extend(["a"] * 2, [1.0, 2.0], [0, 10])
    shown = {each: each._repr_html_() for each in (window, shared, keyed)}
    for html in shown.values():
        assert html.startswith('<table><caption style="white-space: nowrap">')
        assert html.endswith("</table>") and "TimeWindow(&#x27;1 hour&#x27;)" in html
    assert "<tr><th>result</th><td>1.5</td></tr>" in shown[window]
    assert "<tr><th>events in the window</th><td>12,345</td></tr>" in shown[window]
    assert "<tr><th>a&lt;b</th><td>2</td></tr>" in shown[shared] and "a<b" not in shown[shared]
    assert "<tr><th>keys</th><td>1</td></tr>" in shown[keyed]
    assert re.search(r"<th>events in memory</th><td>[\d.]+ (B|KiB)</td>", shown[keyed])


def test_a_notebook_shows_a_window_whose_store_does_not_answer() -> None:
    window = Window(Max(), CountWindow(4), name="down")
    window.extend([1.0, 2.0])

    def query() -> float:
        raise StoreUnavailable("no answer from <pages>")

    window.query = query  # type: ignore[method-assign]
    html = window._repr_html_()
    assert "<th>result</th><td>not available: no answer from &lt;pages&gt;</td>" in html
    assert "<tr><th>events accepted</th><td>2</td></tr>" in html


def test_microseconds_where_seconds_are_meant() -> None:
    with pytest.warns(UserWarning, match=r"window of 2,738 years.*write TimeWindow\('1 day'\)"):
        TimeWindow(86_400_000_000)


@pytest.mark.filterwarnings("error")
def test_a_time_window_shows_what_makes_it() -> None:
    for size in ("24 hours", "90 seconds", "1 hour", "250 ms", "7 us", "36500 days", 86_400.0):
        window = TimeWindow(size)
        assert eval(repr(window)).size == window.size
    assert repr(TimeWindow("24 hours")) == "TimeWindow('1 day')"
    assert TimeWindow(5).describe() == "TimeWindow(5000000 us)"  # as in snapshots
