"""The compiled kernels: the same bits as numpy's way, and no crash on anything that is let through.

Where numpy itself says what a NaN's sign is by where it stands in a column, every NaN is one; so is
a -0.0 beside 0.0 among extremes, which no result shows.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mta import ArgMax, ArgMin, Count, First, Last, Max, Mean, Min, Product, SampleStdDev, Sum
from mta.aggregations import CheckedSum, GeometricMean, PopulationStdDev
from mta.folds.blocks import fold_ranges
from mta.folds.sliding import SlidingFolds, has_kernel, sweep_into
from mta.kernels import native
from mta.kernels.native import Kernel, Sweep, ranks
from mta.monoids.base import AbstractMonoid, Refold
from tests.support import oracle
from tests.support.bits import HARD, bits
from tests.support.kernels import numpy_alone
from tests.support.sampling import some

needs_compiled = pytest.mark.skipif(
    native.compiled is None, reason=f"the compiled kernels are not in use: {native.in_use()}"
)

MONOIDS: dict[str, Callable[[], AbstractMonoid]] = {
    "sum": Sum, "max": Max, "min": Min, "mean": Mean, "geometric": GeometricMean,
    "sample": SampleStdDev, "population": PopulationStdDev, "count": Count, "first": First,
    "last": Last, "argmax": ArgMax, "argmin": lambda: ArgMin("int64"),
    "sum of integers": lambda: Sum("int64"), "max of integers": lambda: Max("int64"),
    "min of integers": lambda: Min("int64"), "last of integers": lambda: Last("int64"),
    "checked": CheckedSum,
    "product": lambda: Product({"a": ("x", Mean()), "b": ("x", Max()), "n": Count()}),
}  # fmt: skip
ENDS = [-(2**63), 2**63 - 1, 0, 1, -1, 2**62]


def drawn(monoid: AbstractMonoid, count: int, rng: random.Random, hard: bool) -> tuple[Any, int]:
    """Lifted rows of values that are easy, or hard."""
    floats = np.array([rng.choice(HARD) if hard else rng.gauss(0, 3) for _ in range(count)], "f8")
    whole = np.array([rng.choice(ENDS) if hard else rng.randrange(99) for _ in range(count)], "i8")
    if isinstance(monoid, Product):
        rows: Any = (floats,)
    elif isinstance(monoid, Count):
        rows = ()
    elif isinstance(monoid, (ArgMax, ArgMin)):
        rows = floats, whole.astype(monoid.inputs.schemas[1].dtype)
    else:
        rows = whole if monoid.inputs.dtype.kind == "i" else floats
        if isinstance(monoid, GeometricMean):
            rows = np.abs(rows)
    with np.errstate(all="ignore"):
        return monoid.lift_rows(rows, count), count


def same_with_and_without(work: Callable[[], Any]) -> None:
    with np.errstate(all="ignore"):
        found = work()
        with numpy_alone():
            expected = work()
    assert bits(found) == bits(expected)


def same_folds_with_and_without(
    monoid: AbstractMonoid, rows: Any, count: int, fronts: np.ndarray
) -> None:
    """Sliding folds, up to the rounding that the order of additions makes."""
    stops = range(1, count + 1)
    with np.errstate(all="ignore"):
        found = SlidingFolds(monoid, rows, count).between(fronts, stops)
        with numpy_alone():
            expected = SlidingFolds(monoid, rows, count).between(fronts, stops)
        for at, front in enumerate(fronts.tolist()):
            one, other = (monoid.partials.at(folds, at) for folds in (found, expected))
            piece = monoid.partials.cut(rows, front, at + 1)
            fold = Refold.of_rows(monoid, piece, at + 1 - front)
            assert fold.agrees(one) and fold.agrees(other), (at, front, one, other)


@needs_compiled
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("counts", [(0, 1, 3, 64, 127, 129), (2, 63, 65, 128, 700)], ids=str)
def test_the_same_bits(name: str, hard: bool, counts: tuple[int, ...]) -> None:
    rng, monoid = random.Random(f"{name} {hard}"), MONOIDS[name]()
    schema, identity = monoid.partials, monoid.identity
    for count in counts:
        rows, _ = drawn(monoid, count, rng, hard)
        one, _ = drawn(monoid, 1, rng, hard)
        for start in (identity, schema.at(one, 0)):
            same_with_and_without(lambda r=rows, n=count, s=start: monoid.prefixes(r, n, s))
            same_with_and_without(lambda r=rows, n=count, s=start: monoid.suffixes(r, n, s))
        if not count:
            continue
        for reach in (1, 3, 64, 1000):
            starts = np.sort([rng.randrange(count) for _ in range(50)])
            most = np.minimum(count - starts, reach)
            lengths = np.array([rng.randint(1, int(m)) for m in most])
            same_with_and_without(
                lambda r=rows, n=count, s=starts, e=lengths: fold_ranges(monoid, r, n, s, e)
            )
            fronts = np.maximum(np.arange(count) - reach + 1, 0)
            for each in (fronts, np.maximum.accumulate(fronts // 7 * 7)):
                same_folds_with_and_without(monoid, rows, count, each)


@needs_compiled
@pytest.mark.parametrize("name", sorted(MONOIDS.keys() - {"product"}))
@pytest.mark.parametrize("hard", [False, True])
@np.errstate(all="ignore")
def test_a_sweep_of_steady_fronts(name: str, hard: bool) -> None:
    """As a range, as an array, and by whole-column folds: more of them than C takes at once."""
    rng, monoid = random.Random(f"{name} {hard}"), MONOIDS[name]()
    for count, behind in ((1, 0), (128, 5), (129, 0), (400, 150)):
        rows, _ = drawn(monoid, count, rng, hard)
        before, size = drawn(monoid, count + behind, rng, hard)
        stack = monoid.suffixes(before, size, monoid.identity)
        one = monoid.partials.one(monoid.identity)
        fronts, found = range(behind, behind + count), []
        for each in (fronts, np.array(fronts)):
            for lowered in {False, monoid.kernel_lowers}:
                schema = monoid.outputs if lowered else monoid.partials
                out = schema.new(count)
                sweep = Sweep(rows, stack, 0, size, 0, each, range(1, 1 + len(each)), one)
                swept = sweep_into(sweep, monoid, out, lowered)
                if swept is not None:
                    found.append((lowered, bits(out), bits(swept.right)))
        with numpy_alone():
            rights = monoid.prefixes(rows, count, monoid.identity)
            lefts = monoid.partials.cut(stack, behind, behind + count)
            folds = monoid.combine_rows(lefts, rights, count)
            last = monoid.partials.one(monoid.partials.at(rights, count - 1))
            lowers = bits(monoid.lower_rows(folds)) if monoid.kernel_lowers else b""
        assert hard or found or not has_kernel(monoid)
        for lowered, result, right in found:
            assert result == (lowers if lowered else bits(folds))
            assert right == bits(last)


@needs_compiled
@pytest.mark.parametrize("seed", some(range(40), by_default=12))
def test_searches(seed: int) -> None:
    rng = random.Random(seed)
    near = rng.choice([3, 50, 2**40])
    size, count = rng.choice([0, 1, 2, 9, 500, 5000]), rng.choice([1, 2, 130, 2000])
    times = np.sort(np.array([rng.randint(-near, near) for _ in range(size)], "i8"))
    keys = np.sort(np.array([rng.randint(-near, near) for _ in range(count)], "i8"))
    same_with_and_without(lambda: np.array(ranks(times, keys, age=near // 3)))


class KeyPages:
    """Runs of pages of keys as ``native.meet`` has them: hashes, ends in 2 bytes each, and keys."""

    runs = np.array([[0, 3], [3, 3], [3, 7]])

    def __init__(self, rng: np.random.Generator, most: int) -> None:
        counts = rng.integers(0, 9, 7)
        of_runs = [self.drawn(rng, most, int(counts[a:b].sum())) for a, b in self.runs]
        self.hashes = np.split(np.concatenate(of_runs), np.cumsum(counts)[:-1])
        self.pages, self.columns = list[bytes](), np.zeros((3, 5, 7), np.int64)
        for at, hashes in enumerate(self.hashes):
            ends, keys = self.packed(hashes)
            head = b"-" * at + hashes.tobytes()
            short = (ends + 7).astype("<u2").tobytes()
            self.columns[0, :3, at] = at, len(hashes), 8
            self.columns[1, :, at] = len(head), len(ends), 2, -7, 1
            self.columns[2, :3, at] = len(head + short), len(keys), 1
            self.pages.append(head + short + keys + b"+")

    @staticmethod
    def drawn(rng: np.random.Generator, most: int, count: int) -> np.ndarray:
        found = set[int]()
        while len(found) < count:
            found.add(int(rng.integers(0, most, dtype="u8")))
        return np.array(sorted(found), "u8")

    @staticmethod
    def packed(hashes: np.ndarray) -> tuple[np.ndarray, bytes]:
        keys = [b"key %d" % hash_ for hash_ in hashes.tolist()]
        return np.cumsum([0, *map(len, keys)]), b"".join(keys)

    def match(self, wanted: np.ndarray, texts: bool) -> tuple[bool, np.ndarray]:
        ends, keys = self.packed(wanted)
        bounds, blob = (ends, keys) if texts else (ends[:0], b"")
        raw = np.frombuffer(blob, "u1")
        met = native.match(self.pages, self.columns, self.runs, wanted, bounds, raw)
        assert met is not None
        return met


@needs_compiled
@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_keys_match_those_of_pages(seed: int, texts: bool) -> None:
    rng = np.random.default_rng(seed)
    most = int(rng.choice([60, 2**64 - 1], shuffle=False))
    held = KeyPages(rng, most)
    some = np.concatenate([*held.hashes, rng.integers(0, most, 5, "u8")])
    wanted = np.unique(rng.choice(some, 12))
    good, found = held.match(wanted, texts)
    assert good
    for hash_, slots in zip(wanted.tolist(), found.tolist(), strict=True):
        for (a, b), slot in zip(held.runs.tolist(), slots, strict=True):
            places = [
                (page << 32) + place
                for page, lot in enumerate(held.hashes) if a <= page < b
                for place, other in enumerate(lot.tolist()) if other == hash_
            ]  # fmt: skip
            assert slot == max(places, default=-1)
    held.pages[0], held.columns[0, 1, 0] = b"\2" * 8 + b"\1" * 8, 2
    held.columns[1:, :3, 0] = 0
    assert not held.match(wanted, texts)[0], "they are out of order"


@needs_compiled
@pytest.mark.parametrize(
    "change", ["a byte", "where it begins", "where it ends", "beyond its page", "bytes of no width"]
)
def test_another_key_of_the_same_hash_is_not_met(change: str) -> None:
    held = KeyPages(np.random.default_rng(3), 2**64 - 1)
    page = next(at for at, hashes in enumerate(held.hashes) if len(hashes) > 2)
    wanted = held.hashes[page][1:2]
    assert held.match(wanted, texts=True)[0]
    raw = bytearray(held.pages[page])
    _, ends, keys = (int(start) for start in held.columns[:, 0, page])
    if change == "a byte":
        raw[keys + raw[ends + 2] - 7] ^= 1
    elif change == "beyond its page":
        held.columns[2, 1, page] = 1
    elif change == "bytes of no width":  # of which any number fits into a page
        held.columns[2, 1:3, page] = 2**62, 0
        held.columns[1, 3, page] += 2**40
    else:
        raw[ends + 2 + 2 * (change == "where it ends")] += 1
    held.pages[page] = bytes(raw)
    assert not held.match(wanted, texts=True)[0]
    assert held.match(wanted, texts=False)[0], "a key that is its hash has no bytes"


@needs_compiled
def test_ranks_that_grow_by_one_are_a_range() -> None:
    times = np.arange(300) * 10
    assert ranks(times, times[20:] + 5, age=100) == range(11, 291)


@needs_compiled
def test_what_does_not_suit_is_left_to_numpy() -> None:
    kernel = Kernel("sum_f8")
    with np.errstate(all="ignore"):
        for rows in (np.arange(3), np.arange(3.0, dtype="f4"), (np.arange(3.0), np.arange(3.0))):
            assert native.join(kernel, rows, rows) is None
        every_second = np.arange(6.0)[::2]
        found = native.join(kernel, every_second, every_second)
    assert found is not None and found.tolist() == [0.0, 4.0, 8.0]


@needs_compiled
def test_a_function_put_in_the_place_of_a_monoids_own_is_called() -> None:
    class Doubled(Sum):
        def __init__(self) -> None:
            super().__init__()
            self.lower = lambda partial: 2 * partial

    class Weighed(Sum):
        def __init__(self) -> None:
            super().__init__()
            self.combine = lambda one, other: one + 2 * other

    assert not Doubled().kernel_lowers and Sum().kernel_lowers
    assert Weighed().kernel is None and Doubled().kernel is not None


@needs_compiled
@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("hard", [False, True])
def test_rows_are_combined_to_the_same_bits(name: str, hard: bool) -> None:
    rng, monoid = random.Random(f"{name} {hard}"), MONOIDS[name]()
    for count in (0, 1, 2, 500):
        left, right = drawn(monoid, count, rng, hard)[0], drawn(monoid, count, rng, hard)[0]
        same_with_and_without(lambda a=left, b=right, n=count: monoid.combine_rows(a, b, n))
    with np.errstate(all="ignore"):
        many, one = drawn(monoid, 30, rng, hard)[0], drawn(monoid, 1, rng, hard)[0]
        if not isinstance(monoid, Product):
            same_with_and_without(lambda: monoid.combine_rows(many, one, 30))


@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("size", [2, 3, 100, 1000])
def test_groups_that_are_folded_together_have_the_bits_of_each(
    name: str, hard: bool, size: int
) -> None:
    """Pages must not depend on whether events arrived one by one or in batches."""
    monoid = MONOIDS[name]()
    rows, count = drawn(monoid, 7 * size, random.Random(f"{name} {hard}"), hard)
    cut = monoid.partials.cut
    with np.errstate(all="ignore"):
        found = monoid.folds(rows, count, size)
        each = [monoid.fold(cut(rows, at, at + size), size) for at in range(0, count, size)]
    assert bits(found) == bits(monoid.partials.gathered(each))


@needs_compiled
def test_deviations_are_combined_by_a_kernel() -> None:
    monoid = SampleStdDev()
    rows, count = drawn(monoid, 9, random.Random(1), hard=False)
    found = native.join(Kernel("moments", 1), rows, rows)
    assert found is not None and bits(found) == bits(monoid.combine_rows(rows, rows, count))


# --- whatever Python lets through -----------------------------------------------------------------


def _fuzz_single(rng: random.Random) -> None:
    """Load any columns into a stack for single events, and add any events."""
    stack, near = native.compiled.Stack(), [*HARD, *range(-2, 4), 1023, 1024, 1025, 2**63 - 1]
    sizes = [rng.choice([0, 1, 3, 40, 1024, 1025, 1026]) for _ in range(4)]
    if rng.random() < 0.8:
        sizes = [sizes[0], rng.choice([0, sizes[0]]), sizes[2], sizes[2]]
    for name in (
        "operation",
        "is_mean",
        "by_count",
        "turns",
        "most",
        "spare",
        "length",
        "rows",
    ):
        setattr(stack, name, rng.choice([0, 1, 1, 2, 900, 1024, -1, 2**63 - 1]))
    for name in ("right", "last", "bound", "age", "floor", "lateness", "delay"):
        setattr(stack, name, rng.choice(near) if rng.random() < 0.3 else 0.0)
    stack.bound = rng.choice([1e9, *HARD])
    with suppress(ValueError):
        stack.load(*[np.resize(np.array(near, "f8"), size) for size in sizes])
    stacks = rng.choice([(stack, stack), (stack,), (stack, 3), ()])
    row = rng.choice([1.0, (1.0, 2.0), (), None, float("nan")])
    for at in range(rng.choice([1, 50, 1100])):
        stack.event(rng.choice(HARD), rng.choice([float(at), *HARD]))
        names = rng.choice([(), ("a", "b"), ("a", []), ("a",)])
        with suppress(TypeError):  # a name that cannot be hashed
            native.compiled.events(stacks, row, rng.choice([float(at), *HARD]), names)
        if rng.random() < 0.1:
            stack.evict(), stack.fold(), stack.column(rng.random() < 0.5)


def _fuzz(rng: random.Random) -> None:  # noqa: C901
    """Call a kernel with columns, positions and sizes that may fit, or not at all."""
    module = native.compiled

    def number() -> int:
        near = rng.choice([3, 3, 12, 70, 2**61, 2**63, 2**70])
        return rng.choice([rng.randint(-3, 9), rng.randint(-near, near)])

    def column(dtype: str, count: int) -> Any:
        if rng.random() < 0.03:
            return rng.choice([None, 3, b"12345678", "text", [1.0], np.zeros((2, 2)), 1.5])
        count = count if rng.random() < 0.97 else rng.randrange(99)
        if dtype == "f8":
            values = np.array([rng.choice(HARD) for _ in range(count)], "f8")
        elif dtype == "?":
            values = np.array([rng.random() < 0.7 for _ in range(count)], "?")
        else:
            values = np.array([rng.choice([*range(9), count, *ENDS]) for _ in range(count)], "i8")
            if rng.random() < 0.8:
                values = np.sort(values % (count + 1 if rng.random() < 0.8 else 2**40))
        if rng.random() < 0.02:
            with np.errstate(over="ignore"):  # 1e300 is infinite there
                values = values.astype("f4") if rng.random() < 0.5 else np.repeat(values, 2)[::2]
        return values

    kind = rng.choice([*range(len(module.KINDS)), -1, 99] if rng.random() < 0.1 else
                      range(len(module.KINDS)))  # fmt: skip
    name = module.KINDS[kind] if 0 <= kind < len(module.KINDS) else "sum_f8"
    types = {"mean": ("f8", "f8"), "moments": ("f8",) * 3, "first": ("i8", "?"),
             "last": ("i8", "?"), "arg_max": ("f8", "i8", "?"), "arg_min": ("f8", "i8", "?"),
             }.get(name, (name[-2:],))  # fmt: skip

    def rows(count: int) -> Any:
        same = rng.random() < 0.1  # the same item in some rows
        return tuple([column(d, 1 if same and rng.random() < 0.5 else count) for d in types])

    def numbers(count: int) -> Any:
        return column("i8", count)

    pages = rng.choice([0, 1, 3])

    def buffers() -> Any:
        found = [rng.randbytes(rng.choice([0, 8, 80])) for _ in range(pages)]
        return rng.choice([found, found, found, tuple(found), [*found, None], None])

    def column_of(count: int = 1) -> Any:
        return column("i8", 5 * pages * count)

    count, more = rng.choice([0, 1, 2, 7, 40, 200]), rng.choice([0, 1, 3, 40])
    places = number() if rng.random() < 0.4 else numbers(more)
    lengths = numbers(more)
    if isinstance(lengths, np.ndarray) and lengths.dtype.kind == "i" and rng.random() < 0.7:
        lengths = lengths % 70 + 1
    lost = rng.choice([-1.0, 0.0, 1.0])

    def stops() -> Any:
        ends = (
            np.sort(numbers(more)) if rng.random() < 0.3 else rng.choice([numbers(more), number()])
        )
        return np.minimum.accumulate(ends[::-1])[::-1] if isinstance(ends, np.ndarray) else ends

    out = (column("f8", more),) if lost >= 0 else rows(more)
    calls: list[Callable[[], Any]] = [
        lambda: module.scan(kind, rows(count), rows(count + 1), rng.random() < 0.5),
        lambda: module.sweep(
            kind, rows(count + more), rows(rng.choice([1, 5, count + more + 1])),
            rng.choice([np.array([0, rng.choice([0, 1])]), numbers(2)]),
            rng.choice([count, number()]), places, stops(), rows(1), rng.random() < 0.5, lost, out,
        ),
        lambda: module.ranges(kind, rows(count), numbers(more), lengths, rows(more)),
        lambda: module.join(kind, rows(count), rows(count), rows(count)),
        lambda: _fuzz_single(rng),
        lambda: module.ranks(numbers(count), numbers(more), numbers(more), number()),
        lambda: module.first_later(
            numbers(count), numbers(4), numbers(more), numbers(more), numbers(more)
        ),
        lambda: module.gathered(
            buffers(), column_of(), numbers(more), numbers(more), numbers(more),
            rng.random() < 0.5, rng.choice([native.ROOM, bytearray, bytes, None, lambda _: b""]),
        ),
        lambda: module.match(
            buffers(), column_of(3), numbers(2 * pages), numbers(more),
            numbers(rng.choice([0, more, more + 1])), numbers(pages * more), column("u1", 80),
        ),
    ]  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            rng.choice(calls)()
    except (ValueError, TypeError, BufferError, OverflowError):
        pass


@needs_compiled
def test_no_input_crashes() -> None:
    for seed in range(3000):
        _fuzz(random.Random(seed))


@needs_compiled
@pytest.mark.soak
def test_no_input_crashes_for_long() -> None:
    seed = oracle.seed("hostile calls of kernels")
    for at in range(300_000):
        _fuzz(random.Random(seed + at))


# --- which are in use -----------------------------------------------------------------------------


def reported(choice: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mta", "--version"],
        env={**os.environ, "MTA_KERNELS": choice}, capture_output=True, text=True,
    )  # fmt: skip


def test_numpy_is_chosen() -> None:
    assert "kernels   numpy (MTA_KERNELS=numpy)" in reported("numpy").stdout


def test_an_unknown_choice_is_refused() -> None:
    found = reported("fortran")
    assert found.returncode and "MTA_KERNELS is one of" in found.stderr


def test_native_ones_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    if native.compiled is not None:
        assert "kernels   native" in reported("native").stdout
    monkeypatch.setitem(sys.modules, "mta.kernels.compiled", None)
    monkeypatch.setenv("MTA_KERNELS", "native")
    with pytest.raises(ImportError, match="C compiler"):
        native.load()
    monkeypatch.delenv("MTA_KERNELS")
    assert native.load() is None


def test_an_extension_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    older = ModuleType("mta.kernels.compiled")  # as it was before it had a revision
    monkeypatch.setitem(sys.modules, "mta.kernels.compiled", older)
    monkeypatch.setattr(native, "compiled", None)
    monkeypatch.delenv("MTA_KERNELS", raising=False)
    assert native.load() is None
    assert "install the package again" in native.in_use()
    monkeypatch.setenv("MTA_KERNELS", "native")
    with pytest.raises(ImportError, match="built from other sources"):
        native.load()


#: A revision, and what the C sources are at it.
PINNED = (16, "a95d9d303bd775c1")


def test_the_revision_is_that_of_the_sources() -> None:
    folder = Path(native.__file__).parent
    sources = b"".join(file.read_bytes() for file in sorted(folder.glob("*.[ch]")))
    if sources:  # a wheel has none
        digest = hashlib.sha256(sources).hexdigest()[:16]
        assert (native.REVISION, digest) == PINNED, (
            f"the C sources have changed: raise REVISION in module.c and native.py, and note "
            f"{digest} for it here"
        )
        assert sources.count(b"\n") <= 1200, "so much C and no more"
