"""The records that windows return: counts and sizes, coverage, and results with their times."""

from mta.evaluators.coverage import Coverage, Incomplete
from mta.keyed.bucket import KeyedStats
from mta.keyed.windows import Latest
from mta.triggers.triggered import Due
from mta.windows.shared import SharedStats
from mta.windows.window import Stats

__all__ = ["Coverage", "Due", "Incomplete", "KeyedStats", "Latest", "SharedStats", "Stats"]
