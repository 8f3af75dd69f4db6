"""The step with a state of two variables, the snapshot and a map of pages.

It is used only for ``spark://state``, which needs PySpark 4.0 or later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from spark_integration.plan import Plan
from spark_integration.runners.bucket import advance_bucket
from spark_integration.runners.labels import bucket_of
from spark_integration.runners.state_pages import KEY, PAGE, PAGES, STATE, StatePages

if TYPE_CHECKING:
    from spark_integration.step.step import Step

_STATE_SCHEMA = StructType().add("state", BinaryType())
_KEY_SCHEMA = StructType().add(KEY, StringType())
_PAGE_SCHEMA = StructType().add(PAGE, BinaryType())


class StateWithPages(StatefulProcessor):
    """Runs the step with a bucket's snapshot and pages; Spark creates one for each task."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self._plan, self._step = plan, step

    def init(self, spark: StatefulProcessorHandle) -> None:
        """Declare the variables of the state; Spark calls this on the driver too."""
        self._timers = spark
        #: The timer that fired.
        self._fired: int | None = None
        self._state = spark.getValueState(STATE, _STATE_SCHEMA)
        self._pages = spark.getMapState(PAGES, _KEY_SCHEMA, _PAGE_SCHEMA)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Advance a bucket with its packed rows."""
        saved, reached = self._state.get(), timerValues.getCurrentWatermarkInMs()
        before = None if saved is None else bytes(saved[0])
        pages = StatePages(self._pages)
        plan = self._plan.of_bucket(bucket_of(key[0]))
        after = advance_bucket(plan, self._step, before, rows, pages, reached)
        self._state.update((after.state,))
        self._set_timer(after.timer)
        yield after.results

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Advance a bucket whose keys have become idle; Spark deletes the timer afterwards."""
        self._fired = expiredTimerInfo.getExpiryTimeInMs()
        try:
            yield from self.handleInputRows(key, iter(()), timerValues)
        finally:
            self._fired = None

    def _set_timer(self, wanted: int | None) -> None:
        """Set the only timer of the bucket, which fires once the watermark passes ``wanted``."""
        if wanted is not None and wanted == self._fired:
            # Spark deletes the timer that fired, together with any other timer at that moment.
            wanted += 1
        present = list(self._timers.listTimers())
        for timer in present:
            if timer != wanted:
                self._timers.deleteTimer(timer)
        if wanted is not None and wanted not in present:
            self._timers.registerTimer(wanted)

    def close(self) -> None:
        """Do nothing: Spark commits the state."""


class StateAsGiven(StateWithPages):
    """Writes the state and the pages of each bucket for ``mta migrate``, instead of a step.

    A row has a label, a time, and either a state, or the name of a page and the page. Columns are
    read by position, because PySpark may lose names that begin with "_".
    """

    def __init__(self) -> None: ...

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Write the state of a bucket, and set a timer for the first watermark."""
        pages = StatePages(self._pages)
        for part in rows:
            columns = (part.iloc[:, place] for place in (2, 3, 4))
            for state, name, page in zip(*columns, strict=True):
                if name is None:
                    self._state.update((bytes(state),))
                else:
                    pages.put_many({name: bytes(page)})
        pages.flush()
        self._set_timer(1)
        yield from ()
