"""What snapshots know a monoid by: pinned, the same everywhere, and telling monoids apart."""

from __future__ import annotations

from mta import ArgMax, Collect, Max, Mean, Min, Monoid, Product, Sum
from tests.support.ready_made import EVERY, made, power

#: Snapshots hold these: a change makes every earlier snapshot unreadable.
FINGERPRINTS = {
    "Max": "6d16958ef667cf150d2f107ec06b6a94",
    "Mean": "8f8ad6afb48be2e777e6c052269b3510",
    "Collect": "0424657366ecc958731978e2b1a485c9",
    "Sum[int64]": "20cd4f62779924d090985880f9220f8f",
    "Product": "397a6c46816c2d64291906c8ccd39415",
    "user": "9bcdceb2605b29be8ad417cae21d9fba",
}


def test_fingerprints_are_pinned() -> None:
    pinned = {
        "Max": Max(),
        "Mean": Mean(),
        "Collect": Collect(),
        "Sum[int64]": Sum("int64"),
        "Product": power(),
        "user": Monoid(identity=(0, "a"), combine=max, name="user"),
    }
    assert {name: monoid.fingerprint.hex() for name, monoid in pinned.items()} == FINGERPRINTS


def test_fingerprints_distinguish_monoids() -> None:
    different = [
        *[made(name) for name in EVERY],
        Max("int64"),
        Max("f4"),
        Sum("int32"),
        ArgMax("int64"),
        Monoid(identity=0, combine=max, name="m"),
        Monoid(identity=1, combine=max, name="m"),
        Monoid(identity=0, combine=max, name="n"),
        Product({"a": ("x", Max())}),
        Product({"b": ("x", Max())}),
        Product({"a": ("y", Max())}),
        Product({"a": ("x", Min())}),
        Product({"a": ("x", Max("int64"))}),
    ]
    assert len({monoid.fingerprint for monoid in different}) == len(different)
    assert all(len(monoid.fingerprint) == 16 for monoid in different)
    assert Max().fingerprint == Max("float64").fingerprint
