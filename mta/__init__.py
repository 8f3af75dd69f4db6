"""Sliding windows whose pages live in a key-value store.

Start with ``Window`` and a monoid and a policy from here. The packages, each importing only those
before it:

- ``errors``, ``times``, ``zones``: what goes wrong; times as whole microseconds; time zones
- ``kernels``, ``columns``: numbers without a monoid; values and partials as columns
- ``recipes``: how monoids and frames were constructed, as plain data
- ``dataframes``: data frames of pandas, polars and Arrow
- ``datasets``: a generated dataset for first examples
- ``monoids``: what a window computes
- ``in_order``: the papers' algorithms in memory
- ``folds``: many ranges at once
- ``frames``: which of the oldest events leave
- ``pages``: the formats of pages and snapshots
- ``logs``: events in order, in pages
- ``evaluators``: how a moving frame over a log is folded
- ``publishing``: snapshots under a name, for other processes
- ``windows``, ``keyed``, ``triggers``: what users hold
- ``audit``, ``laws``: checks of what is stored, and of what users write
- ``planning``: what windows of many keys will take, before they run
- ``published``: what is published, to be read
- ``serve``: published windows over HTTP
- ``cli``: the commands without Spark
"""

# The first of all imports: it says so where something else hides the package ``stores``.
from mta import errors as errors

# isort: split
from mta import frames, monoids
from mta.audit.description import SnapshotSummary, SubWindow, describe_snapshot
from mta.evaluators.amortized_mta import AmortizedMTA
from mta.evaluators.coverage import Coverage, Incomplete
from mta.evaluators.fiba import FiBA
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.log_mta import LogMTA
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.evaluators.steady_mta import SteadyMTA
from mta.frames import *  # noqa: F403
from mta.keyed.rolling import rolling
from mta.keyed.windows import KeyedStats, KeyedWindows, Latest
from mta.monoids import *  # noqa: F403
from mta.published import (
    PublishedStatus,
    PublishedWindows,
    open_published,
    published_names,
    unpublish,
)
from mta.triggers.rules import EveryCount, EveryPeriod, OnDemand, Trigger
from mta.triggers.sliced import SlicedWindow
from mta.triggers.triggered import Due, TriggeredWindow
from mta.windows.shared import SharedStats, SharedWindows
from mta.windows.window import Stats, Window

__version__ = "0.2.0.dev0"

__all__ = [
    "AmortizedMTA",
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
    "unpublish",
]
__all__ += monoids.__all__
__all__ += frames.__all__
