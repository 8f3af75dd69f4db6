"""Rows of a batch that are questions: they are answered, and never become events.

    key a     event 1, event 5, question 5, question 7, event 9      in order of time; at equal
                                                                     times, events come first

A question is answered as of its time, from the events of its key that arrived before its batch or
in it. A question before the horizon of its key is late (``Retention.horizons``), just as an event
before the cutoff is. This does not depend on which events are actually stored.

For vectorized keys, questions are answered from the stored events of their keys and those of the
batch. A standalone window adds its events up to each question, and then answers the question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mta.columns.schemas import Rows
from mta.kernels.native import first_later, order_by
from mta.keyed.kind import Kind
from mta.keyed.moments import in_lanes
from mta.keyed.standalone import StandaloneWindows, put_answer
from mta.keyed.table import EXPIRED, STANDALONE, Table
from mta.keyed.work import Asked, union_of


@dataclass(slots=True)
class Questions:
    """The questions of a batch that are not late, by key and time."""

    at: np.ndarray
    """The place of each question in the batch."""
    of: np.ndarray
    """The place of the key of each question."""
    times: np.ndarray
    outputs: list[Rows]
    """For each window, one answer per question."""

    def __len__(self) -> int:
        return len(self.at)


def questions_among(marks: np.ndarray, codes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the places of the marked rows, by key and time."""
    at = np.flatnonzero(marks)
    found: np.ndarray = at[order_by(codes[at], times[at])]
    return found


def answer(
    kind: Kind, questions: Questions, known: Table, at: np.ndarray, new: Table,
    standalone: StandaloneWindows,
) -> Asked | None:  # fmt: skip
    """Answer the questions of a batch; return those that standalone windows answer later.

    ``new`` has the events of all keys of the batch, and ``at`` the place of each key in ``known``,
    or -1.
    """
    marks = np.append(known.marks, np.uint8(0))[at]
    at = np.where(marks == EXPIRED, -1, at)
    alone = (marks == STANDALONE) | (not kind.vectorized)
    is_alone = alone[questions.of]
    _answer_lanes(kind, questions, np.flatnonzero(~is_alone), known, at, new)
    waiting = np.flatnonzero(is_alone & (new.counts[questions.of] > 0))
    for row in np.flatnonzero(is_alone & (new.counts[questions.of] == 0)).tolist():
        place = int(at[questions.of[row]])
        if place >= 0 and known.marks[place] == STANDALONE:
            window, moment = standalone.opened(known, place), int(questions.times[row])
            left = int(known.left[place]) > 0
            put_answer(kind, window, moment, left, questions.outputs, row)
    if not len(waiting):
        return None
    of, times = questions.of[waiting], questions.times[waiting]
    assert new.times is not None
    slots = first_later(new.times, new.bounds, of, times)
    return Asked(of, times, slots, waiting, questions.outputs)


def _answer_lanes(
    kind: Kind, questions: Questions, rows: np.ndarray, known: Table, at: np.ndarray, new: Table
) -> None:
    """Answer the questions of vectorized keys."""
    if not len(rows):
        return
    monoid, keys = kind.monoid, np.unique(questions.of[rows])
    late = kind.settings.allowed_lateness is not None
    union, _ = union_of(known, at[keys], new.take(keys), late)
    of = np.searchsorted(keys, questions.of[rows])
    found, _ = in_lanes(kind, monoid, union, of, questions.times[rows])
    for out, part in zip(questions.outputs, found, strict=True):
        monoid.outputs.put_at(out, rows, part)
