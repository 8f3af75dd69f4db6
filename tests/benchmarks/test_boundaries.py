"""The PBA paper's experiments: their sizes, and that what is timed is right."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

import pyarrow as pa

from benchmarks.papers.pba import data as generated
from benchmarks.papers.pba import experiments as boundaries
from benchmarks.papers.pba import latency as boundary_latency
from benchmarks.papers.pba.figures import found_thread
from benchmarks.papers.pba.power_sums import Partials, PowerSums, SlickMoments, slices_of
from benchmarks.papers.pba.sides import (
    Side,
    Slices,
    a_combine,
    by_batches,
    by_rounds,
    by_slices,
    by_time,
    verify,
)
from benchmarks.report.experiment import Finding, Row
from benchmarks.spark.engine import OWN, found_engine
from mta import Max, MomentSketch, Monoid
from mta.in_order import PBA, SBA, TwoStacks
from mta.laws import check_monoid

VALUES = np.random.default_rng(3).normal(size=120)


def joined() -> Monoid:
    return Monoid("", lambda a, b: a + b, name="join")


# --- sizes --------------------------------------------------------------------------------------


def test_count_windows_are_the_paper_s() -> None:
    assert boundaries.ranges(1) == [2**k for k in range(3, 21)]
    assert boundaries.halved(boundaries.FIXED, 1) == 17
    assert list(boundaries.SLIDES) == list(range(1, 11))
    assert boundaries.ranges(2**-5)[-1] == 2**15


def test_time_windows_are_the_paper_s() -> None:
    readings = [minutes * boundaries.MINUTE for minutes in boundaries.MINUTES]
    assert readings[0] == 6 * 60 * 100
    assert readings[-1] == 60 * 60 * 100
    case = boundary_latency.cases()[-1]
    assert boundary_latency.scaled(case, 1) == [3600, 7200]
    assert boundary_latency.scaled(boundary_latency.cases()[0], 1) == [2**13, 2**14]
    small, large = boundary_latency.scaled(case, 1e-6)
    assert 2 <= small < large


def test_values_of_whole_windows_are_timed() -> None:
    for reach in (8, 1000, 2**17):
        assert boundaries.timed(reach, 1, single=True) % reach == 0
        assert boundaries.timed(reach, 1, single=True) >= boundaries.SINGLES


# --- sides --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sides", "reach", "slide"),
    [
        (by_rounds(24), 24, 1),
        (by_slices(24, 1), 24, 1),
        (by_slices(24, 4), 24, 4),
        (by_slices(25, 4), 25, 4),  # windows that end within slices
        (by_batches(24, 1, Max()), 24, 1),
        (by_batches(24, 4, Max()), 24, 4),
    ],
)
def test_every_side_answers_as_a_plain_list(sides: list[Side], reach: int, slide: int) -> None:
    for side in sides:
        window = side.make()
        side.fill(window, (VALUES[:reach],))
        for end in range(reach + slide, len(VALUES) + 1, slide):
            found = side.run(window, (VALUES[end - slide : end],))
            assert found == VALUES[end - reach : end].max(), side.algorithm


@pytest.mark.parametrize(("reach", "slide"), [(600, 1), (600, 7), (605, 10)])
def test_every_side_answers_over_time(reach: int, slide: int) -> None:
    seconds, watts = generated.equipment(3 * reach)
    micros, width = np.rint(seconds * 1e6).astype("i8"), reach * 10_000
    for side in (*by_time(reach, slide), *by_time(reach, slide, Max(), (SBA, PBA))):
        window = side.make()
        side.fill(window, (watts[:reach].tolist(), seconds[:reach].tolist()))
        rest = (watts[reach:].tolist(), seconds[reach:].tolist())
        for end, result in window.instances(*rest):
            inside = (micros >= end - width) & (micros < end)
            assert result == watts[inside].max(), (side.algorithm, end)
        assert micros[-1] - end < slide * 10_000 + width


def test_slices_of_a_stream_with_silences() -> None:
    drawn = random.Random(5)
    busy = sorted(drawn.randrange(40_000) / 1000 for _ in range(200))
    times = [*busy, 95.5, 95.6, 99.0]
    letters = [drawn.choice("abc") for _ in times]
    for reach, slide in ((10, 2), (7, 3)):
        inner = TwoStacks(joined())
        window = Slices(inner, reach * 1_000_000, slide * 1_000_000, timed=True)
        found = [one for one in window.instances(letters, times) if one[1]]
        assert found == list(SBA.timed(joined(), reach, slide).instances(letters, times))
        inner.check()


def test_a_wrong_side_is_not_timed() -> None:
    right = by_rounds(8)[0]
    with pytest.raises(AssertionError, match="wrong answers other than TwoStacks"):
        verify(
            [right, Side("wrong", right.make, right.fill, lambda window, data: 9.0)],
            (VALUES,),
            8,
            4,
        )


def test_combines_are_counted() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 5 * boundaries.COUNTED).tolist()
    found = boundaries.counted(partial(by_rounds, boundaries.COUNTED), (values,))
    assert found["TwoStacks"] == 3
    assert found["SlickDeque"] < 2
    assert 3 < found["SBA"] <= 4
    assert found["RecalculateFromScratch"] == pytest.approx(boundaries.COUNTED, abs=1)
    assert a_combine(joined(), "a", "b", times=10) > 0


def test_combines_of_the_median_window_are_counted() -> None:
    python = boundary_latency.cases()[0]
    values = boundary_latency.stream(python, 64)
    found = {name: boundary_latency.combines(python, name, values) for name in python.sides}
    assert (found["TwoStacks"], found["SBA"], found["PBA"]) == (2, 3, 3)
    assert 1 <= found["SlickDeque"] <= 2


# --- MomentSketch -------------------------------------------------------------------------------


def test_power_sums_are_a_monoid() -> None:
    check_monoid(PowerSums(4), [0.5, 1.0, 2.0, 3.5])


def test_power_sums_are_what_they_say() -> None:
    values = np.array([1.0, 2.0, 4.0, 0.5])
    (found,) = slices_of(PowerSums(3), values, 4)
    powers = [(values**i).sum() for i in (1, 2, 3)]
    logs = [(np.log(values) ** i).sum() for i in (1, 2, 3)]
    assert found.tolist() == pytest.approx([0.5, 4.0, 4, *powers, *logs])


def test_slick_deques_of_its_parts_answer_as_two_stacks() -> None:
    _, watts = generated.equipment(4000)
    slices = slices_of(PowerSums(10), watts, 100)
    slick, stacks = SlickMoments(23), TwoStacks(Partials(PowerSums(10)))
    for number, one in enumerate(slices):
        for window in (slick, stacks):
            if number >= 12:
                window.evict()
            window.insert(one)
        assert np.allclose(slick.query(), stacks.query(), rtol=1e-9)
    assert len(slick) == len(stacks) == 12


def test_every_case_of_latencies_answers_alike() -> None:
    for case in boundary_latency.cases():
        values, results = boundary_latency.stream(case, 16), {}
        for name, make in case.sides.items():
            window = make(case.monoid, 16)
            taken, results[name] = boundary_latency.each_window(window, case, values, 16, 40)
            assert len(taken) == 40
        boundary_latency.require_alike(case, results)
        expected = ["PBA", "SBA", "SlickDeque", "TwoStacks"]
        assert sorted(results) == [
            n for n in expected if n != "SlickDeque" or "ours" not in case.name
        ]


def test_slick_deque_cannot_take_ours() -> None:
    assert not MomentSketch().selective
    assert not MomentSketch().invertible


def test_spikes_are_as_many_as_ranges_went_by() -> None:
    taken = np.full(1000, 2.0)
    taken[[100, 350, 600, 850]] = 50.0
    taken[7] = 9000.0  # once in all: nothing that the algorithm does each time
    found = boundary_latency.summary(taken, 250)
    assert (found["spike"], found["median"], found["max"]) == (50.0, 2.0, 9000.0)


# --- generated streams --------------------------------------------------------------------------


def test_the_machine_reports_every_ten_milliseconds() -> None:
    seconds, watts = generated.equipment(5000)
    slices = np.rint(seconds * 1e6).astype("i8") // 10_000
    assert np.array_equal(slices, 100 * generated.BEGINS + np.arange(5000))
    assert (watts > 0).all()
    again = generated.equipment(5000)
    assert np.array_equal(again[0], seconds) and np.array_equal(again[1], watts)


def test_plugs_are_84_slightly_skewed_keys_in_order_of_time() -> None:
    readings = generated.plugs(84_000)
    keys, times = readings["plug"].to_numpy(), readings["ts"].cast("int64").to_numpy()
    counts = np.bincount(keys)
    assert len(counts) == 84
    assert counts.sum() == pytest.approx(84_000, abs=84)
    assert (counts.min(), counts.max()) == (800, 1200)
    assert (np.diff(times) >= 0).all()
    assert all(len(np.unique(times[keys == k])) == counts[k] for k in range(84))
    assert readings["watts"].to_numpy().min() >= 0


# --- the engine ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [SBA, PBA])
def test_peaks_of_a_plug(algorithm: type[SBA] | type[PBA]) -> None:
    pytest.importorskip("pyspark")
    from benchmarks.spark.engine import RANGE, peaks_of

    watts, order = np.random.default_rng(2).normal(size=3 * RANGE), np.arange(3 * RANGE)
    shuffled = np.random.default_rng(2).permutation(order)
    table = pa.table({"plug": np.zeros(len(order), "i4"), "ts": order, "watts": watts})
    found = peaks_of(table.take(pa.array(shuffled)), algorithm)
    assert found["ts"].to_pylist() == order.tolist()
    expected = [watts[max(0, end - RANGE) : end].max() for end in range(1, len(watts) + 1)]
    assert found["peak"].to_pylist() == expected


def engine_row(algorithm: str, partitions: int, krps: float, largest: float) -> Row:
    return {
        "algorithm": algorithm, "partitions": partitions, "cores": 2, "rows": 1000, "krps": krps,
        "seconds": 1 / krps, "largest": largest, "empty": 0.3 / krps,
    }  # fmt: skip


def test_the_findings_say_what_cores_and_keys_allow() -> None:
    rows = [
        engine_row(name, partitions, speed * times, largest)
        for name, speed in ((OWN, 10.0), ("PBA", 100.0))
        for partitions, times, largest in ((1, 1, 1.0), (2, 1.1, 0.6), (4, 1.15, 0.3))
    ]
    found = {one.what: one for one in found_engine(rows)}
    assert found[f"PBA to {OWN}, partitions: 1"].seen.startswith("10.0 times")
    two = found["PBA: throughput from 1 to 2 partitions"]
    assert "allow 1.67" in two.seen
    assert two.agrees is False and "30% of the time" in two.why
    four = found["PBA: throughput from 2 to 4 partitions"]
    assert "2 cores" in four.seen and "allow 1.20" in four.seen
    assert four.agrees


def test_the_thread_pays_where_it_does_at_the_largest_ranges() -> None:
    def found(*pba: float) -> Finding:
        rows = [
            {"operator": "Max", "algorithm": name, "range": 2 ** (8 + 2 * number), "pause_us": us}
            for name, times in (("SBA", (4.0, 8.0, 32.0, 128.0)), ("PBA", pba))
            for number, us in enumerate(times)
        ]
        return next(one for one in found_thread(rows) if "below SBA's" in one.what)

    paid = found(16.0, 16.0, 16.0, 16.0)
    assert paid.agrees
    assert paid.seen.endswith("from 2^11.0 on")
    dear = found(40.0, 40.0, 64.0, 160.0)
    assert dear.agrees is False
    assert dear.why.startswith("0.10 times at 256, 0.80 at 16,384")
    once = found(2.0, 16.0, 64.0, 256.0)
    assert once.agrees is False
    assert not once.why
