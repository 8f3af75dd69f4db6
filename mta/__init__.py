"""Sliding windows whose pages live in a key-value store.

Start with ``Window``, a monoid and a frame from this module. Each package imports only packages
that are listed before it:

- ``minimal``: the idea of the package in a hundred lines, which nothing imports: read it first
- ``errors``, ``times``: errors; times as whole microseconds, and time zones
- ``kernels``, ``columns``: numeric code without monoids; values and partials as columns
- ``recipes``: how monoids and frames were constructed, as plain data
- ``dataframes``: data frames of pandas, polars and Arrow
- ``datasets``: a generated dataset for first examples
- ``monoids``: what a window computes
- ``in_order``: the papers' algorithms in memory
- ``folds``: folds of many ranges together
- ``frames``: which events are in a window
- ``descriptions``: how windows are made, as plain data
- ``pages``, ``snapshots``: the formats of pages and snapshots
- ``logs``: ordered events in pages
- ``evaluators``: aggregates of a moving frame over a log
- ``publishing``: snapshots under a name, for other processes
- ``windows``, ``keyed``, ``triggers``: the public windows
- ``declarations``: windows that are declared in a file of TOML
- ``queries``: window functions in SQL
- ``audit``, ``laws``: checks of stored data, and of user-defined monoids and frames
- ``published``: readers of published windows
- ``serve``: published windows over HTTP
- ``device``: windows on a device that run by themselves
- ``feast``: an online and an offline store for Feast; nothing imports it
- ``service``: declared windows that take events over HTTP
- ``client``: clients of these
- ``cli``: the commands without Spark
"""

# Import this first: it reports if another package hides ``stores``.
from mta import errors as errors

# isort: split
from mta import frames, monoids
from mta.audit.walk import SnapshotSummary, SubWindow, describe_snapshot
from mta.client import Answer, AsyncClient, Client, RequestRefused
from mta.evaluators.amortized_mta import AmortizedMTA, LogMTA
from mta.evaluators.coverage import Coverage, Incomplete
from mta.evaluators.fiba import FiBA
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.evaluators.steady_mta import SteadyMTA
from mta.frames import *  # noqa: F403
from mta.keyed.rolling import rolling
from mta.keyed.windows import KeyedStats, KeyedWindows, Latest
from mta.monoids import *  # noqa: F403
from mta.published import (
    AsyncPublishedWindows,
    PublishedStatus,
    PublishedWindows,
    open_published,
    published_names,
    unpublish,
)
from mta.queries.tables import sql
from mta.triggers.rules import EveryCount, EveryPeriod, OnDemand, Trigger
from mta.triggers.sliced import SlicedWindow
from mta.triggers.triggered import Due, TriggeredWindow
from mta.windows.settings import Settings
from mta.windows.shared import SharedStats, SharedWindows
from mta.windows.window import Stats, Window

__version__ = "0.2.0.dev0"

__all__ = [
    "AmortizedMTA",
    "Answer",
    "AsyncClient",
    "AsyncPublishedWindows",
    "Client",
    "Coverage",
    "Due",
    "EveryCount",
    "EveryPeriod",
    "FiBA",
    "Incomplete",
    "KeyedStats",
    "KeyedWindows",
    "Latest",
    "LogMTA",
    "OnDemand",
    "PagedFlatFAT",
    "PagedReactiveAggregator",
    "PublishedStatus",
    "PublishedWindows",
    "RequestRefused",
    "Settings",
    "SharedStats",
    "SharedWindows",
    "SlicedWindow",
    "SnapshotSummary",
    "Stats",
    "SteadyMTA",
    "SubWindow",
    "Trigger",
    "TriggeredWindow",
    "Window",
    "describe_snapshot",
    "open_published",
    "published_names",
    "rolling",
    "sql",
    "unpublish",
]
__all__ += monoids.__all__
__all__ += frames.__all__
