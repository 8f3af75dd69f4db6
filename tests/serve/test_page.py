"""The page in a real Chromium, without a network beyond this machine."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from mta import Collect, Count, KeyedWindows, Max, Mean, Product, Sum, TimeWindow, Window
from mta.aggregations import LastText, Mode
from tests.support.sampling import some
from tests.support.serving import TOKEN, Served

playwright = pytest.importorskip(
    "playwright.sync_api", reason="NOT TESTED: the page, as playwright is missing"
)
HOUR = 3600
#: Milliseconds for what must come; only a test that fails waits so long.
TIMEOUT = 60_000


class Meters:
    """Meters of two plants, whose windows go on."""

    def __init__(self, store: str, name: str = "meters") -> None:
        self.now, self.store, self.name = int(time.time()), store, name
        several = Product({"peak": ("watts", Max()), "mean": ("watts", Mean()), "n": Count()})
        windows = {"hour": TimeWindow("1 hour"), "day": TimeWindow("24 hours")}
        self.windows = KeyedWindows(several, windows, store, name="w")
        self.windows.publish(name)
        self.add([self.now - HOUR * 20 + 600 * n for n in range(119)], 100)

    def add(self, times: list[int], watts: int) -> None:
        keys = [("north/1", 7)] * len(times)
        values = [float(watts + n % 40) for n in range(len(times))]
        self.windows.extend(keys, {"watts": values}, times)
        self.windows.checkpoint()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("NOT TESTED: the page, as there is no Chromium (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def meters(tmp_path_factory: pytest.TempPathFactory) -> Meters:
    return Meters(f"file://{tmp_path_factory.mktemp('pages')}")


@pytest.fixture(scope="module")
def service(meters: Meters) -> Iterator[Served]:
    with Served(meters.store, meters.name, "--refresh", "50 ms") as found:
        yield found


@pytest.fixture(scope="module")
def tab(chromium: Any, service: Served) -> Iterator[Any]:
    yield from opened(chromium, service)


@pytest.fixture
def page(tab: Any, service: Served) -> Any:
    """The page as it is when it is first opened, in a tab that tests share: each takes a second."""
    tab.evaluate("sessionStorage.clear(), localStorage.clear()")
    tab.goto("about:blank")
    tab.goto(service.url)
    return tab


def opened(chromium: Any, service: Served) -> Iterator[Any]:
    """A page of which every request to another host, and every error, is a failure."""
    context = chromium.new_context()
    context.set_default_timeout(TIMEOUT)
    elsewhere, errors = [], []

    def route(route: Any) -> None:
        if route.request.url.startswith(service.url):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    context.route("**/*", route)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if _is_error(m) else None)
    page.goto(service.url)
    yield page
    context.close()
    assert not elsewhere and not errors


def _is_error(message: Any) -> bool:
    """Also what the Content-Security-CustomFrame has refused; not an answer that is a problem."""
    return message.type == "error" and "status of 4" not in message.text


def until(page: Any, condition: str, argument: Any = None) -> None:
    """Wait for a condition; playwright's own way to wait needs ``eval``, which the page forbids."""
    deadline = time.monotonic() + TIMEOUT / 1000
    while not page.evaluate(condition, argument):
        assert time.monotonic() < deadline, f"never came: {condition}"
        page.wait_for_timeout(50)


def find(page: Any, key: str) -> None:
    page.fill("#part-0", key)
    page.keyboard.press("Enter")
    page.wait_for_selector("#chart svg")


KEY = "north/1,7"


def test_it_shows_what_is_served(page: Any, meters: Meters) -> None:
    until(page, "document.querySelector('#tile-keys').textContent === '1'")
    assert page.title() == page.inner_text("h1") == meters.name
    assert page.inner_text("#tile-events") == "119"
    assert re.fullmatch(r"committed [\d.]+ (s|min) ago", page.inner_text("#pulse-text"))
    assert page.is_hidden("#incomplete") and page.is_hidden("#key")
    page.wait_for_selector("#spark-events svg")


def test_it_finds_a_key_and_draws_it(page: Any) -> None:
    page.wait_for_selector("#part-0")
    find(page, KEY)
    rows = [row.inner_text().split() for row in page.query_selector_all("#values tbody tr")]
    assert [row[0] for row in rows] == ["peak", "mean", "n"]
    assert rows[0][1:] == ["138", "139"] and rows[2][1:] == ["6", "119"]
    assert len(page.query_selector_all("#chart circle.event")) == 119
    assert page.query_selector("#chart path.line.s0") and page.query_selector("#chart path.line.s1")
    first = page.get_attribute("#chart path.line.s0:not(.partial)", "d")
    page.click("#choices button:has-text('n')")
    line = "document.querySelector('#chart path.line.s0:not(.partial)').getAttribute('d')"
    until(page, f"first => {line} !== first", first)
    page.click("#spans button:has-text('1 h')")
    until(page, "document.querySelectorAll('#chart circle.event').length < 10")
    page.click("summary")
    assert page.inner_text("#events-table tbody tr:first-child td:last-child") == "138"


def test_it_refreshes_by_itself(page: Any, meters: Meters) -> None:
    page.wait_for_selector("#part-0")
    find(page, KEY)
    meters.add([meters.now + 5], 500)
    until(page, "document.querySelector('#values td').textContent === '500'")
    until(page, "document.querySelector('#tile-events').textContent === '120'")
    page.click("#pause")
    assert page.get_attribute("#pause", "aria-pressed") == "true"
    shown = page.inner_text("#updated")
    page.wait_for_timeout(2500)
    assert page.inner_text("#updated") == shown


def test_it_is_used_by_keys_alone(page: Any) -> None:
    page.wait_for_selector("#part-0")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#part-0")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#chart svg")
    page.focus("#chart svg")
    page.keyboard.press("Home")
    first = page.inner_text("#readout")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#readout") != first
    page.keyboard.press("End")
    assert "hour" in page.inner_text("#readout")
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, button, svg[role=img]')].filter(each => "
        "!(each.textContent.trim() || each.labels?.length || each.getAttribute('aria-label')))"
        ".map(each => each.outerHTML)"
    )
    assert unnamed == []


def test_a_link_leads_to_a_key_at_a_moment(page: Any, service: Served, meters: Meters) -> None:
    page.wait_for_selector("#part-0")
    page.fill("#at", str(meters.now - HOUR))
    find(page, KEY)
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#chart svg")
    assert page.input_value("#part-0") == KEY
    assert str(meters.now - HOUR) in page.inner_text("#key-facts")


def test_what_is_wrong_is_said(page: Any) -> None:
    page.wait_for_selector("#part-0")
    page.fill("#at", "yesterday")
    page.fill("#part-0", KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#problem:not([hidden])")
    assert "'yesterday' is not a moment" in page.inner_text("#problem")
    page.fill("#at", "")
    page.fill("#part-0", "nobody,1")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#key-facts').textContent.includes('not known')")
    assert page.is_hidden("#problem")


def test_widths_and_colors(page: Any, service: Served, tmp_path: Path) -> None:
    for width, scheme in [(1200, "dark"), (390, "light")]:
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        page.goto(service.url)
        page.wait_for_selector("#part-0")
        find(page, KEY)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        back, ink = (
            page.evaluate(f"getComputedStyle(document.documentElement).{name}")
            for name in ("backgroundColor", "color")
        )
        assert (_light(back) > _light(ink)) == (scheme == "light")
        assert abs(_light(back) - _light(ink)) > 150
        small = page.evaluate(
            "[...document.querySelectorAll('button, input')].filter(each => each.offsetParent && "
            "each.getBoundingClientRect().height < 32).map(each => each.outerHTML)"
        )
        assert small == []
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert (tmp_path / "page.png").stat().st_size > 10_000


def _light(color: str) -> float:
    parts = [float(each) for each in re.findall(r"[\d.]+", color)[:3]]
    return sum(parts) / 3


def test_the_token_is_asked_for_and_forgotten_with_the_tab(chromium: Any, meters: Meters) -> None:
    with Served(meters.store, meters.name, token=TOKEN) as service:
        for page in opened(chromium, service):
            page.wait_for_selector("#login[open]")
            page.fill("#token", "a wrong token")
            page.keyboard.press("Enter")
            page.wait_for_selector("#login[open]")
            page.fill("#token", TOKEN)
            page.keyboard.press("Enter")
            until(page, "document.querySelector('h1').textContent === 'meters'")
            assert page.evaluate("localStorage.length") == 0
            assert page.evaluate("document.cookie") == ""
            assert TOKEN in page.evaluate("JSON.stringify(sessionStorage)")


def test_windows_without_keys_are_shown_at_once(chromium: Any, tmp_path: Path) -> None:
    now = int(time.time())
    store = f"file://{tmp_path}"
    with Window(Max(), TimeWindow("1 hour"), store, name="w", allowed_lateness="1 day") as window:
        window.publish("single")
        window.extend([1.0, 5.0, 2.0], [now - 9000, now - 6000, now - 60])
        window.checkpoint()
        with Served(store, "single") as service:
            for page in opened(chromium, service):
                page.wait_for_selector("#chart svg")
                assert page.inner_text("#values tbody td") == "2"


MARKUP = [
    '<img src="/x" onerror="window.harm = 1">', "<script>window.harm = 1</script>",
    "</td></table><h1>harm</h1>", "&lt;b&gt; &amp; \"'`${1}",
    "javascript:window.harm=1", "<svg/onload=1>",
]  # fmt: skip


def test_markup_in_keys_values_and_names_is_text(chromium: Any, tmp_path: Path) -> None:
    store, now = f"file://{tmp_path}", int(time.time())
    several = Product({
        MARKUP[0]: ("v", LastText()), "<b>all</b>": ("v", Collect()),
        "<u>n</u>": Count(), "<i>mode</i>": (MARKUP[1], Mode()),
    })  # fmt: skip
    windows = KeyedWindows(several, {"<s>w</s>": TimeWindow("1 hour")}, store, name="w")
    windows.publish("markup")
    windows.extend(MARKUP, {"v": MARKUP, MARKUP[1]: MARKUP}, [now + n for n in range(len(MARKUP))])
    windows.checkpoint()
    with Served(store, "markup") as service:
        for page in opened(chromium, service):
            for text in MARKUP:
                page.wait_for_selector("#part-0")
                page.fill("#part-0", text)
                page.keyboard.press("Enter")
                until(
                    page, "text => document.querySelector('#key-title').textContent === text", text
                )
                until(page, "document.querySelector('#chart svg')?.getAttribute('role') === 'img'")
                cells = page.evaluate(
                    "[...document.querySelectorAll('#values td')].map(each => each.textContent)"
                )
                assert cells == [text, json.dumps([text], separators=(",", ":")), "1", text]
                heads = page.evaluate(
                    "[...document.querySelectorAll('#values th')].map(each => each.textContent)"
                )
                assert {MARKUP[0], "<b>all</b>", "<s>w</s>"} <= {*heads}
                page.evaluate("document.querySelector('#events').open = true")
                assert page.inner_text("#events-table tbody td:last-child").strip() == text.strip()
                added = page.evaluate(
                    "document.querySelectorAll('main :is(img, script, b, i, u, s, h1)').length"
                )
                assert added == 0 and page.evaluate("window.harm") is None
            page.goto(f"{service.url}/docs")
            page.wait_for_selector("pre")
            assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0


def test_a_link_with_markup_is_text(chromium: Any, service: Served) -> None:
    for page in opened(chromium, service):
        for text in MARKUP:
            page.goto("about:blank")
            page.goto(f"{service.url}/#key={quote(text)},7&at={quote(text)}")
            page.wait_for_selector("#problem:not([hidden])")
            assert page.evaluate("window.harm") is None
            assert page.evaluate("document.querySelectorAll('#problem *').length") == 0


@pytest.mark.parametrize("moment", some(["at", ".9999995", "", ".000001", ".5"], by_default=2))
def test_the_chart_ends_with_what_the_table_shows(
    moment: str, chromium: Any, tmp_path: Path
) -> None:
    """Also if the newest event, or the moment of the table, is between two milliseconds."""
    store, now = f"file://{tmp_path}", np.datetime64(int(time.time()), "s").astype("M8[us]")
    newest = now + (123_001 if moment == "at" else round(float(moment or 0) * 1e6))
    frames = {"hour": TimeWindow("1 hour"), "two": TimeWindow("2 hours")}
    windows = KeyedWindows(
        Product({"total": ("v", Sum())}), frames, store, name="w", allowed_lateness="1 hour"
    )
    windows.publish("sums")
    later = newest + np.timedelta64(1, "us")
    windows.extend(["a"] * 4, {"v": [20.5, 40.08, 20.09, 9.0]},
                   [newest - 9_000_000, newest - 1000, newest, later])  # fmt: skip
    windows.checkpoint()
    shown = "80.67" if moment == "at" else "89.67"
    with Served(store, "sums") as service:
        for page in opened(chromium, service):
            page.wait_for_selector("#part-0")
            if moment == "at":
                page.fill("#at", str(newest))
            find(page, "a")
            cells = page.evaluate(
                "[...document.querySelectorAll('#values td')].map(each => each.textContent)"
            )
            assert cells == [shown, shown]
            assert page.inner_text("#readout").count(shown) == 2
            page.evaluate("document.querySelector('#events').open = true")
            times = page.inner_text("#events-table tbody tr:first-child td:first-child")
            assert np.datetime64(times.replace(" ", "T")) == later


def test_times_that_a_browser_cannot_draw_are_said(chromium: Any, tmp_path: Path) -> None:
    store = f"file://{tmp_path}"
    times = [
        np.datetime64("9999-12-31T23:00:00", "us"),
        np.datetime64(10_030, "Y").astype("M8[us]"),
    ]
    windows = KeyedWindows(Max(), TimeWindow("1 hour"), store, name="w")
    windows.publish("far")
    windows.extend(["a", "b"], [1.0, 2.0], times)
    windows.checkpoint()
    with Served(store, "far") as service:
        for page in opened(chromium, service):
            page.wait_for_selector("#part-0")
            find(page, "a")
            assert page.inner_text("#values td") == "1"
            page.fill("#part-0", "b")
            page.keyboard.press("Enter")
            until(page, "document.querySelector('#chart').textContent.includes('beyond the years')")
            assert page.inner_text("#values td") == "2" and page.is_hidden("#problem")


def test_the_api_is_described(chromium: Any, service: Served) -> None:
    for page in opened(chromium, service):
        page.goto(f"{service.url}/docs")
        page.wait_for_selector("pre")
        headings = [each.inner_text() for each in page.query_selector_all("h2")]
        assert "GET /v1/windows/{key}" in headings
        assert len(page.query_selector_all("pre")) == 7


def test_what_is_incomplete_is_shown_with_its_end(chromium: Any, tmp_path: Path) -> None:
    now, store = int(time.time()), f"file://{tmp_path}"
    hour, day = {"hour": TimeWindow("1 hour")}, {"day": TimeWindow("24 hours")}
    first = KeyedWindows(Max(), hour, store, name="w")
    first.extend(["a"] * 3, [1.0, 2.0, 3.0], [now - 9000, now - 5000, now])
    windows = KeyedWindows.restore(first.checkpoint(), store, aggregations=Max(), window=hour | day)
    windows.publish("changed")
    windows.extend(["a"], [4.0], [now + 1])
    windows.checkpoint()
    with Served(store, "changed") as service:
        (incomplete,) = service.get("/v1/status").json["incomplete"]
        assert incomplete["window"] == "day"
        for page in opened(chromium, service):
            page.wait_for_selector("#incomplete:not([hidden])")
            until = incomplete["complete_from"][:19].replace("T", " ")
            assert f"window day: complete from {until} on" in page.inner_text("#incomplete-list")
