"""``mta run`` with aggregations of the catalogue: arguments, two columns, and the time."""

import numpy as np
import pandas as pd

from mta import rolling
from mta.cli import main

AGGREGATIONS = {
    "usual": (("watts",), "median"),
    "high": (("watts",), "quantile(0.9)"),
    "levels": (("watts",), "nunique"),
    "trend": (("watts", "volts"), "corr"),
    "level": (("ts", "watts"), "time_weighted_mean"),
    "n": ((), "count"),
}
WRITTEN = [
    "usual=median(watts)", "high=quantile(watts, 0.9)", "levels=nunique(watts)",
    "trend=corr(watts, volts)", "level=time_weighted_mean(watts)", "n=count",
]  # fmt: skip


def test_aggregations_of_the_catalogue_over_files(tmp_path, capsys):
    rng, rows = np.random.default_rng(3), 300
    frame = pd.DataFrame({
        "ts": pd.date_range("2025-01-01", periods=rows, freq="37s").as_unit("us"),
        "device": rng.choice(["a", "b"], rows),
        "watts": rng.choice([1.0, 2.0, 5.5], rows),
        "volts": rng.normal(230, 3, rows),
    })  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    out = tmp_path / "out"
    asked = [part for text in WRITTEN for part in ("--agg", text)]
    command = ["run", tmp_path / "in.csv", "--key", "device", *asked, "--window", "10 minutes"]
    assert main([str(part) for part in [*command, "--output", out, "--no-plot"]]) == 0
    done = pd.concat(pd.read_parquet(path) for path in (out / "results").glob("*.parquet"))
    done = done.sort_values("ts", ignore_index=True)
    settings = {"by": "device", "on": "ts", "window": "10 minutes"}
    wanted = rolling(frame, aggregations=AGGREGATIONS, **settings)
    for name in AGGREGATIONS:
        found, expected = done[name].to_numpy("f8"), wanted[name].to_numpy("f8")
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=name)
    capsys.readouterr()
    assert main(["check", str(out)]) == 0
    assert main(["inspect", str(out)]) == 0
