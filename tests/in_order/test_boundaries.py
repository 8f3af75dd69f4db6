"""SBA and PBA: the paper's figures, its theorems, merges a slide, windows over time, threads."""

from __future__ import annotations

import os
import random
import threading
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mta import Max, Monoid, Product, SampleStdDev
from mta.aggregations import PopulationStdDev
from mta.algorithms import PBA, SBA, BoundaryAggregator, count_chunk_size, time_chunk_size
from mta.errors import EmptyWindow, InvalidTime, InvalidValue, LateEvent
from mta.in_order.boundary import RangeChunk
from tests.support.in_order_windows import Counted, PlainList
from tests.support.naive import joined

BOTH = pytest.mark.parametrize("algorithm", [SBA, PBA])
FIGURE_2 = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]


def largest() -> Monoid:
    return Monoid(float("-inf"), max, name="max")


def lcs_of(chunk: RangeChunk) -> list[Any]:
    """All of lcs, of which entry 0 is the ca."""
    return [chunk.ca, *(chunk.lcs(slot) for slot in range(1, chunk.stop - chunk.start))]


# --- figures ------------------------------------------------------------------------------------


@BOTH
def test_figure_2_buffers_and_windows(algorithm: type[BoundaryAggregator]) -> None:
    window = algorithm(largest(), 10, 2, chunk_size=5)
    csa, results, saa = [], [], []
    for number, value in enumerate(FIGURE_2):
        window.insert(value)
        window.check()
        if number % 2:
            result = window.query()
            csa.append(window._csa)
            saa.append(window._slice)
            if window.ends:
                results.append(result)
        if number == 10:
            assert lcs_of(window._chunks[0]) == [6, 6, 3, 3, 3]  # lcs0, at the boundary b1
    assert saa == [5, 6, 0, 1, 3, 2, 7, 4, 9, 8]
    assert csa == [5, 6, 6, 6, 6, 2, 7, 7, 9, 9]
    assert results == [6, 6, 7, 7, 9, 9]  # w0 to w5
    window.insert(0)
    assert [lcs_of(chunk) for chunk in window._chunks] == [[9, 9, 9, 9, 8]]  # lcs1


@BOTH
def test_figure_3_a_window_of_five_parts(algorithm: type[BoundaryAggregator]) -> None:
    """W[16, 1] with chunks of 4: w1 is lcs0[1], ca1, ca2, ca3 and csa4[0]."""
    counted = Counted()
    window = algorithm(counted.monoid, 16, chunk_size=4)
    for letter in "abcdefghijklmnop":
        window.insert(letter)
    assert window.query() == "abcdefghijklmnop"
    window.insert("q")
    assert [chunk.ca for chunk in window._chunks] == ["abcd", "efgh", "ijkl", "mnop"]
    assert window._chunks[0].lcs(1) == "bcd"
    assert counted.of(window.query) == 4
    assert window.query() == "bcdefghijklmnopq"


# --- theorems 1 and 2 ---------------------------------------------------------------------------


def best_by_count(range_: int, slide: int) -> int:
    """The largest chunk whose lcs[1] is there in time, found by trying; a combine takes 1."""
    q, rest = divmod(range_, slide)
    return max(b for b in range(1, q + 1) if b - 2 <= (q + 1 - b) * slide - 1 + rest)


def best_by_time(range_: int, slide: int, unit: Fraction) -> int:
    q, rest = divmod(range_, slide)
    cut = rest + unit if rest else 0
    in_time = (
        b for b in range(1, q + 1) if (b - 2) * unit <= (q + 1 - b) * slide + (q - b) * unit + cut
    )
    return max(in_time)


def test_theorem_1_is_the_largest_chunk_without_waiting() -> None:
    for slide in range(1, 9):
        for size in range(slide, 120):
            chunk = count_chunk_size(size, slide)
            assert chunk == best_by_count(size, slide), (size, slide)
            assert size // slide // chunk == 1, "k = 1"


def test_theorem_2_is_the_largest_chunk_without_waiting() -> None:
    for unit in (Fraction(1, 7), Fraction(1), Fraction(5, 2), Fraction(40)):
        for slide in range(1, 7):
            for size in range(slide, 90):
                chunk = time_chunk_size(size, slide, unit)
                assert chunk == best_by_time(size, slide, unit), (size, slide, unit)
                assert size // slide // chunk == 1, "k = 1"


def test_the_papers_chunk_sizes() -> None:
    assert count_chunk_size(32, 1) == 17  # section 5.1.1; printed for 2^20: "5242884"
    assert count_chunk_size(2**20, 1) == 524_289
    assert [count_chunk_size(n, 1) for n in range(3, 300)] == [(n + 2) // 2 for n in range(3, 300)]
    assert count_chunk_size(10, 2) == 4, "less than in Figure 2, whose first window waits"
    assert count_chunk_size(10, 3) == 3, "few slices: all of them"
    # Time: 1 h by 10 ms, where a combine takes 1 us or 100 us, as long as a hundredth of a slide.
    assert time_chunk_size(3_600_000_000, 10_000, 1) == 359_965
    assert time_chunk_size(3_600_000_000, 10_000, 100) == 356_471
    assert time_chunk_size(3_600_000_000, 10_000, 0) == 360_000


# --- merges -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 1), (8, 1), (64, 1), (10, 2), (12, 4)])
@pytest.mark.parametrize("extra", [0, 1])
@BOTH
def test_at_most_three_merges_a_slide(
    algorithm: type[BoundaryAggregator],
    size: tuple[int, int],
    extra: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the stream's thread, beside the folding of a slide's values; lcs counting."""
    range_, slide = size[0] + extra, size[1]
    counted, lcs = Counted(), []
    started = algorithm._chunk

    def counting(self: Any, *of: Any) -> Any:
        before = counted.combines
        chunk = started(self, *of)
        lcs.append(counted.combines - before)
        return chunk

    monkeypatch.setattr(algorithm, "_chunk", counting)
    window = algorithm(counted.monoid, range_, slide)
    folding = slide - 1 + (range_ % slide > 0)  # windows that end within slices cut each in two
    slides, before = [], 0
    for _ in range(12 * range_):
        window.insert("x")
        if window.ends:
            assert window.query() == "x" * range_
            slides.append(counted.combines - sum(lcs) - before)
            before = counted.combines - sum(lcs)
    del slides[0]  # it filled the window
    assert max(slides) <= 3 + folding
    assert max(slides) == 3 or range_ < 64, "three are taken"
    assert lcs or range_ == slide, "a tumbling window begins again each time"
    assert set(lcs) <= {max(0, window.chunk_size - 2) if algorithm is SBA else 0}


def test_pba_folds_lcs_in_the_other_thread() -> None:
    counted = Counted()
    window = PBA(counted.monoid, 64)
    for _ in range(64 * 8):
        window.insert("x")
        window.query()
    for chunk in window._chunks:
        chunk.lcs(1)
    assert window.chunk_size == 33
    folded = sum(n for name, n in counted.by_thread.items() if name.startswith("lcs"))
    assert folded == (64 * 8 // 33) * (33 - 2)


def test_sba_folds_lcs_at_the_boundary() -> None:
    counted = Counted()
    window = SBA(counted.monoid, 64)
    costs = [counted.of(window.insert, "x") for _ in range(33 * 8 + 1)]
    peaks = [at for at, cost in enumerate(costs) if cost > 3]
    assert peaks == [33 * i for i in range(1, 9)]
    assert {costs[at] for at in peaks} == {33 - 2 + 1}, "lcs, and the last slice joins csa"
    assert set(counted.by_thread) == {threading.current_thread().name}


# --- windows that are asked at any time, over time ----------------------------------------------


def seconds(micros: int) -> float:
    return micros / 1e6


@BOTH
@pytest.mark.parametrize("sizes", [(10, 1, None), (10, 2, 5), (11, 4, 1), (12, 5, None), (9, 9, 1)])
def test_time_windows_equal_a_plain_list(
    algorithm: type[BoundaryAggregator], sizes: tuple[int, int, int | None]
) -> None:
    """Values come in bursts and after gaps, longer than the window among them."""
    range_, slide, chunk = sizes
    window = algorithm.timed(joined(), seconds(range_), seconds(slide), chunk_size=chunk)
    plain, drawn, now = PlainList(range_, slide), random.Random(range_), 1_700_000_000_000_000
    for step in range(400):
        now += drawn.choice([0, 0, 0, 1, 1, 2, 3, range_ - 1, range_, 3 * range_])
        value = chr(97 + step % 26)
        window.insert(value, np.datetime64(now, "us"))
        plain.insert(value, now)
        window.check()
        assert len(window) == len(plain)
        if step % 3:
            assert window.query() == plain.result(window.monoid)
        if step % 7 == 0:
            window.evict()
            plain.evict()
            window.check()
            assert window.query() == plain.result(window.monoid)


@BOTH
def test_instances_over_time(algorithm: type[BoundaryAggregator]) -> None:
    """Windows [0, 10), [5, 15), ... of whole seconds, each with exactly its values."""
    times = [0, 3, 4, 9, 10, 11, 26, 27, 60]
    window = algorithm.timed(joined(), 10, 5)
    found = list(window.instances("abcdefghi", times))
    expected = []
    for end in range(5, 61, 5):
        text = "".join(v for v, t in zip("abcdefghi", times, strict=True) if end - 10 <= t < end)
        if text:
            expected.append((end * 1_000_000, text))
    assert found == expected
    window.advance(64.999999)
    assert (window.ends, window.query()) == (True, "i")
    window.advance(75)
    assert (len(window), window.query()) == (0, "")


@BOTH
def test_an_early_eviction_draws_a_boundary_early(algorithm: type[BoundaryAggregator]) -> None:
    """A window far shorter than its range lies in one chunk, where there is no lcs to ask."""
    window = algorithm(joined(), 1000)
    for letter in "abcde":
        window.insert(letter)
    window.evict()
    assert len(window._chunks) == 1
    assert lcs_of(window._chunks[0])[1:] == ["bcd", "cd", "d"]
    assert window.query() == "bcde"
    for expected in ("cde", "de", "e", ""):
        window.evict()
        window.check()
        assert window.query() == expected
    with pytest.raises(EmptyWindow):
        window.evict()


# --- batches ------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (3, 1), (9, 1), (40, 1), (10, 2), (11, 4)])
@pytest.mark.parametrize("chunk_size", [None, 1])
def test_a_batch_answers_what_single_values_would(
    algorithm: type[BoundaryAggregator], sizes: tuple[int, int], chunk_size: int | None
) -> None:
    """Batches of all lengths, single values, queries and early evictions by turns."""
    drawn, letters = random.Random(8), iter("abcdefghijklmnopqrstuvwxyz" * 99)
    batched = algorithm(joined(), *sizes, chunk_size=chunk_size)
    single = algorithm(joined(), *sizes, chunk_size=chunk_size)
    for _ in range(30):
        batch = [next(letters) for _ in range(drawn.choice([0, 1, 2, 5, 30]))]
        expected = [result for _, result in single.instances(batch)]
        assert batched.extend(batch).tolist() == expected
        if drawn.random() < 0.3:
            assert batched.query() == single.query()
        for _ in range(drawn.choice([0, 0, 0, 1, 3])):
            for window in (batched, single):
                if len(window):
                    window.evict()
        batched.check()
        assert len(batched) == len(single)
    assert batched.query() == single.query()


@BOTH
@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_a_batch_on_columns(algorithm: type[BoundaryAggregator], size: int) -> None:
    values = np.random.default_rng(size).normal(1e6, 10, 2000)
    windows = np.lib.stride_tricks.sliding_window_view(values, size)
    expected = {"peak": windows.max(axis=1), "spread": windows.std(axis=1)}
    window = algorithm(Product({"peak": ("x", Max()), "spread": ("x", PopulationStdDev())}), size)
    found = [window.extend({"x": part}) for part in np.split(values, [5, 6, 40, 1500])]
    window.check()
    for name, column in expected.items():
        joined_up = np.concatenate([part[name] for part in found])
        np.testing.assert_allclose(joined_up, column, rtol=1e-9, atol=1e-9)


@BOTH
def test_a_batch_of_the_wrong_kind(algorithm: type[BoundaryAggregator]) -> None:
    window = algorithm(Max(), 3)
    assert window.extend([1.0, 5.0, 2.0]).tolist() == [5.0]
    with pytest.raises(InvalidValue):
        window.extend(["four"])
    assert (len(window), window.query()) == (3, 5.0)
    with pytest.raises(InvalidTime, match="use instances"):
        algorithm.timed(Max(), 10, 1).extend([1.0])


# --- what is refused ----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda a: a(Max(), 5, 6), "from 1 to the range 5, not 6"),
        (lambda a: a(Max(), 5, 0), "from 1 to the range 5, not 0"),
        (lambda a: a(Max(), 10, 2, chunk_size=6), "from 1 to the 5 slices of a window, not 6"),
        (lambda a: a(Max(), 10, 2, chunk_size=0), "from 1 to the 5 slices of a window, not 0"),
        (lambda a: a.timed(Max(), "1 s", "2 s"), "not be longer than the range '1 s', not '2 s'"),
    ],
)
def test_sizes_that_make_no_window(
    algorithm: type[BoundaryAggregator], build: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build(algorithm)


@BOTH
def test_times_where_they_belong(algorithm: type[BoundaryAggregator]) -> None:
    counting, timed = algorithm(Max(), 10), algorithm.timed(Max(), 10, 1)
    with pytest.raises(InvalidTime, match="takes no times"):
        counting.insert(1.0, 5.0)
    with pytest.raises(InvalidTime, match="has no time"):
        counting.advance(5.0)
    with pytest.raises(InvalidTime, match="needs the time"):
        timed.insert(1.0)
    timed.insert(1.0, 5.0)
    with pytest.raises(LateEvent, match="sort the values"):
        timed.insert(1.0, 4.9)
    with pytest.raises(InvalidTime, match="is text"):
        timed.insert(1.0, "noon")
    assert (len(timed), timed.query()) == (1, 1.0)


# --- the other thread ---------------------------------------------------------------------------


class Slow(Max):
    """A Max whose folds in PBA's thread wait for leave."""

    def __init__(self) -> None:
        super().__init__()
        self.leave, self.fails = threading.Event(), False
        self.folds: list[str] = []

    def suffixes(self, partials: Any, count: int, right: Any) -> Any:
        if threading.current_thread().name.startswith("lcs"):
            self.leave.wait(20)
        self.folds.append(threading.current_thread().name)
        if self.fails:
            raise MemoryError("no room for lcs")
        return super().suffixes(partials, count, right)


def test_the_stream_goes_on_while_lcs_is_computed() -> None:
    monoid = Slow()
    window = PBA(monoid, 20)
    values = np.random.default_rng(2).random(60)
    for value in values[:20]:  # a boundary at 11, of which the thread is still at work
        window.insert(value)
        window.query()
    assert threading.active_count() > 1
    monoid.leave.set()
    for at, value in enumerate(values[20:], 20):
        window.insert(value)
        assert window.query() == values[at - 19 : at + 1].max()


def test_who_needs_lcs_waits_for_the_thread() -> None:
    monoid = Slow()
    window = PBA(monoid, 4)
    for value in (5.0, 1.0, 2.0, 3.0, 4.0):  # the 5 has left, so that lcs is needed
        window.insert(value)
    threading.Timer(0.1, monoid.leave.set).start()
    assert window.query() == 4.0
    (thread,) = monoid.folds
    assert thread.startswith("lcs"), "and not folded here a second time"


def test_a_failure_in_the_thread_is_the_callers() -> None:
    monoid = Slow()
    monoid.leave.set()
    window = PBA(monoid, 4)
    for value in (5.0, 1.0, 2.0):
        window.insert(value)
    monoid.fails = True
    window.insert(3.0)  # the boundary
    window.insert(4.0)  # the 5 leaves, so that lcs is needed
    with pytest.raises(MemoryError, match="no room"):
        window.query()
    monoid.fails = False
    assert window.query() == 4.0, "and may be tried again"


def test_a_forked_child_computes_what_its_parents_thread_would_have() -> None:
    monoid = Slow()
    window = PBA(monoid, 4)
    for value in (5.0, 1.0, 2.0, 3.0, 4.0):
        window.insert(value)
    child = os.fork()
    if not child:
        os._exit(int(window.query()))
    monoid.leave.set()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    assert window.query() == 4.0


def test_numpys_warnings_are_off_in_the_thread() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        window = PBA(SampleStdDev(), 12, 3)
        for value in [1e300, -1e300] * 30:
            window.insert(value)
        window.query()
    assert not warned, [str(warning.message) for warning in warned]


def test_all_windows_share_one_pool() -> None:
    """At most a thread a core, where 400 windows had 400."""
    windows = [PBA(SampleStdDev(), 16) for _ in range(400)]
    for value in np.random.default_rng(1).random(100):
        for window in windows:
            window.insert(value)
    assert len({window.query() for window in windows}) == 1
    threads = [one for one in threading.enumerate() if one.name.startswith("lcs")]
    assert 1 <= len(threads) <= (os.cpu_count() or 1)
