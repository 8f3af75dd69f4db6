"""A Feast repository with exact windows: online equals offline equals a list.

    python examples/feast/cards.py

Writes payments, registers the features (``feast apply``), publishes the windows, and asks for all
features of all cards online. Then it asks for the same moments offline, and computes them from
plain lists.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

HERE = Path(__file__).parent
OUTPUT = Path("feast-output").absolute()
CARDS = [f"card-{number:02}" for number in range(20)]
FRAMES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}


def payments(count: int) -> pd.DataFrame:
    """Return payments of the last nine days, in order of time, the last one some seconds ago."""
    rng, now = random.Random(1), datetime.now(UTC).replace(microsecond=0)
    ages = sorted((9 * 86_400 * rng.random() ** 2 + 5 for _ in range(count)), reverse=True)
    return pd.DataFrame({
        "card": [rng.choice(CARDS) for _ in range(count)],
        "ts": pd.to_datetime([now - timedelta(seconds=round(age)) for age in ages]).as_unit("us"),
        "amount": [round(rng.expovariate(1 / 40), 2) for _ in range(count)],
    })  # fmt: skip


def publish(frame: pd.DataFrame) -> None:
    """Add the payments to windows, as a program or a Spark query does, and publish them."""
    sys.path.insert(0, str(OUTPUT))
    from features import spending

    from mta import KeyedWindows
    from mta.feast import definition_of

    aggregations, frames = definition_of(spending)
    store = f"file://{OUTPUT}/pages"
    windows = KeyedWindows(aggregations, frames, store, "cards", nulls="skip")
    with windows:
        windows.publish(spending.name)
        windows.extend(frame.card, {"amount": frame.amount}, frame.ts)
        windows.checkpoint()


def expected(frame: pd.DataFrame, card: str, moment: pd.Timestamp) -> dict[str, Any]:
    """Return the features of a card as of a moment, from a plain list."""
    own = [(t, a) for c, t, a in frame.itertuples(index=False) if c == card and t <= moment]
    found: dict[str, Any] = {}
    for name, length in FRAMES.items():
        amounts = [amount for ts, amount in own if ts > moment - length]
        found |= {
            f"spent_{name}": sum(amounts) if amounts else None,
            f"highest_{name}": max(amounts, default=None),
            f"deviation_{name}": statistics.stdev(amounts) if len(amounts) > 1 else None,
            f"payments_{name}": len(amounts),
        }
    return found


def same(left: Any, right: Any) -> bool:
    left, right = (None if pd.isna(each) else each for each in (left, right))
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)


def main() -> None:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    for name in ("feature_store.yaml", "features.py"):
        shutil.copy(HERE / name, OUTPUT)
    os.environ["CARDS"] = str(OUTPUT)
    frame = payments(4000)
    frame.to_parquet(OUTPUT / "payments.parquet", index=False)
    feast = Path(sys.executable).with_name("feast")
    subprocess.run([str(feast), "apply"], cwd=OUTPUT, check=True)
    publish(frame)

    from feast import FeatureStore

    store = FeatureStore(repo_path=str(OUTPUT))
    names = [field.name for field in store.get_feature_view("spending").features]
    refs = [f"spending:{name}" for name in names]
    before = time.perf_counter()
    response = store.get_online_features(refs, [{"card": card} for card in CARDS])
    took = time.perf_counter() - before
    online = response.to_df(include_event_timestamps=True)
    print(f"online: {len(names)} features of {len(CARDS)} cards in {1000 * took:.0f} ms")

    moments = pd.to_datetime(online[f"{names[0]}__ts"], unit="s", utc=True)
    entities = pd.DataFrame({"card": online.card, "event_timestamp": moments})
    offline = store.get_historical_features(entity_df=entities, features=refs).to_df()
    assert offline.card.tolist() == online.card.tolist()
    training = pd.DataFrame({"card": frame.card[::7], "event_timestamp": frame.ts[::7]})
    history = store.get_historical_features(entity_df=training, features=refs).to_df()
    for name in names:
        assert all(map(same, online[name], offline[name])), name
    for table in (offline, history):
        for row in table.to_dict("records"):
            right = expected(frame, row["card"], row["event_timestamp"])
            assert all(same(row[name], right[name]) for name in names), (row, right)
    print(f"online equals offline equals a list: {len(names)} features, {len(history):,} "
          "training rows")  # fmt: skip


if __name__ == "__main__":
    main()
