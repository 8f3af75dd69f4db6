"""``mta plan``: estimate the resources of windows before they run."""

from __future__ import annotations

import re
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from mta.cli.console import InvalidCommand, at_least_one, note, say, seconds, whole
from mta.frames import CountWindow, TimeWindow
from mta.keyed.bucket import LOCAL_PAGE, REMOTE_PAGE
from mta.planning.expected import Workload
from mta.planning.plan import MEASURED, Costs, Plan, measure, plan
from mta.windows.display import human_bytes
from stores import ping_store
from stores.address import without_credentials

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
_LOCAL = ("file", "memory")
_STORES = (*_LOCAL, "redis", "rediss", "couchbase", "couchbases", "s3", "gs", "az", "spark")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of ``mta plan``."""
    add = parser.add_argument
    add("--keys", type=_amount, required=True, metavar="N",
        help="how many different keys a window has, such as 10000, 50k or 10M")  # fmt: skip
    add("--events-per-second", type=_amount, required=True, metavar="N",
        help="the events of all keys together, such as 800 or 200k")  # fmt: skip
    add("--window", type=_window, required=True, metavar="SIZE",
        help="a time, or a number of events per key: '30 days', '1000 events'")  # fmt: skip
    add("--aggregations", type=at_least_one, default=1, metavar="N",
        help="how many aggregations, each over its own column of doubles; default: 1")  # fmt: skip
    add("--store", default="file", metavar="STORE",
        help=f"its kind, or a URL: {', '.join(_STORES)}; default: file")  # fmt: skip
    add("--batch", dest="batch_seconds", type=seconds, default=10.0, metavar="TIME",
        help="the time from one micro-batch to the next; default: 10 seconds")  # fmt: skip
    add("--key-bytes", type=whole("a number of bytes up to 65536", 0, 1 << 16), default=0,
        metavar="N", help="the length of keys in bytes, 0 for integers; default: 0")  # fmt: skip
    add("--buckets", type=at_least_one, metavar="N",
        help="how many groups of keys; default: chosen from the number of cores")  # fmt: skip
    add("--measure", action="store_true",
        help="measure this machine first, which takes a minute or two: in the store if a "
        "URL is given, otherwise on local disk; default: no")  # fmt: skip
    add("--json", action="store_true", dest="as_json",
        help="print one JSON document, with sizes in bytes; default: lines of text")  # fmt: skip


def show_plan(store: str, buckets: int | None, measure: bool, **asked: Any) -> None:
    """Print a plan. Raises InvalidCommand, and the errors of the store while measuring."""
    kind = store.partition(":")[0]
    if kind not in _STORES:
        raise InvalidCommand(f"--store {kind!r} is none of {', '.join(_STORES)}")
    costs = _measured(store) if measure else MEASURED
    work = Workload(**asked, page_bytes=LOCAL_PAGE if kind in _LOCAL else REMOTE_PAGE)
    found = plan(work, buckets, costs)
    note(**asdict(found), costs=asdict(costs), measured=measure)
    _show(found, kind)


def _measured(store: str) -> Costs:
    if "://" in store and not store.startswith("spark:"):
        ping_store(store, write=True)
        say(f"measures  in {without_credentials(store)}")
        return measure(store)
    if not store.startswith(_LOCAL):
        raise InvalidCommand(f"--measure: give the URL of a store to measure in, not {store!r}")
    with tempfile.TemporaryDirectory() as folder:
        say("measures  on local disk")
        return measure(f"file://{folder}")


def _show(found: Plan, kind: str) -> None:
    size = "each with pages of its own" if found.standalone else "many keys to a page"
    say(f"keys        {found.events_per_key:,.1f} events each; {size}")
    say(f"store       {found.pages:,} pages, {human_bytes(found.store_bytes)}")
    written, read = found.written_bytes_per_second, found.read_bytes_per_second
    say(f"traffic     {human_bytes(written)} a second written, {human_bytes(read)} read at most")
    if kind in ("s3", "gs", "az"):
        say(f"requests    {found.flushes_per_second:,.1f} a second with a warm cache on disk")
    else:
        calls, pages = found.store_calls_per_second, found.pages_per_second
        say(f"requests    {calls:,.1f} calls a second at most, of {pages:,.0f} pages")
    say(f"checkpoint  {human_bytes(found.checkpoint_bytes)} in each micro-batch")
    say(f"buckets     {found.buckets}, partitions {found.partitions}")
    say(f"cores       {found.cores}, at {found.events_per_second_and_core:,} events a second each")
    say(f"memory      {human_bytes(found.executor_bytes)} a core, beside Spark's Java")


def _amount(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgbKMGB]?)", text.strip().replace("_", ""))
    if match is None or float(match[1]) == 0:
        raise ArgumentTypeError(f"write a number above 0, such as 800, 50k or 10M, not {text!r}")
    return float(match[1]) * _UNITS[match[2].lower()]


def _window(text: str) -> TimeWindow | CountWindow:
    count = re.fullmatch(r"([\d_,]+) *events?", text.strip())
    try:
        return CountWindow(int(re.sub("[_,]", "", count[1]))) if count else TimeWindow(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{error}; write '30 days' or '1000 events'") from None
