"""Sliding windows whose pages live in a key-value store.

This module exports what you start with: windows, functions on tables and on published windows, and
common aggregations and frames. ``mta.aggregations`` and ``mta.frames`` export all of these,
``mta.algorithms`` the papers' algorithms, ``mta.results`` what windows return, ``mta.errors`` the
errors, and ``mta.testing`` checks of your own aggregations and frames. Each package imports only
packages that are listed before it:

- ``minimal``: the idea of the package in a hundred lines, which nothing imports: read it first
- ``errors``, ``times``: errors; times as whole microseconds, and time zones
- ``kernels``, ``columns``: numeric code without monoids; values and partials as columns
- ``recipes``: how monoids and frames were constructed, as plain data
- ``dataframes``: data frames of pandas, polars and Arrow
- ``datasets``: a generated dataset for first examples
- ``monoids``, ``aggregations``: what a window computes; the public names
- ``in_order``: the papers' algorithms in memory
- ``folds``: folds of many ranges together
- ``frames``: which events are in a window
- ``descriptions``: how windows are made, as plain data
- ``pages``, ``snapshots``: the formats of pages and snapshots
- ``logs``: ordered events in pages
- ``evaluators``: aggregates of a moving frame over a log
- ``algorithms``: the public names of the papers' algorithms
- ``publishing``: snapshots under a name, for other processes
- ``windows``, ``keyed``, ``triggers``: the public windows
- ``results``: the public names of what they return
- ``declarations``: windows that are declared in a file of TOML
- ``queries``: window functions in SQL
- ``audit``, ``testing``: checks of stored data, and of user-defined monoids and frames
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
from mta.frames import CalendarWindow, CountWindow, SessionWindow, TimeWindow
from mta.keyed.rolling import rolling
from mta.keyed.windows import KeyedWindows
from mta.monoids.base import Monoid
from mta.monoids.basic import ArgMax, ArgMin, Count, First, Last, Max, Mean, Min, Sum
from mta.monoids.deviations import SampleStdDev
from mta.monoids.product import Product
from mta.monoids.quantiles import Median, Quantile
from mta.monoids.text import Collect
from mta.published.reader import open_published
from mta.publishing.publisher import published_names, unpublish
from mta.queries.tables import sql
from mta.triggers.rules import EveryCount, EveryPeriod, OnDemand, Trigger
from mta.triggers.sliced import SlicedWindow
from mta.triggers.triggered import TriggeredWindow
from mta.windows.settings import Settings
from mta.windows.shared import SharedWindows
from mta.windows.window import Window

__version__ = "0.2.0.dev0"

__all__ = [
    "ArgMax", "ArgMin", "CalendarWindow", "Collect", "Count", "CountWindow", "EveryCount",
    "EveryPeriod", "First", "KeyedWindows", "Last", "Max", "Mean", "Median", "Min", "Monoid",
    "OnDemand", "Product", "Quantile", "SampleStdDev", "SessionWindow", "Settings",
    "SharedWindows", "SlicedWindow", "Sum", "TimeWindow", "Trigger", "TriggeredWindow",
    "Window", "open_published", "published_names", "rolling", "sql", "unpublish",
]  # fmt: skip
