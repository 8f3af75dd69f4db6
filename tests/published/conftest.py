"""Windows of few keys that have pages all the same."""

import pytest

from mta.keyed import windows


@pytest.fixture(autouse=True)
def pages_of_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables go into pages, of whatever size, and not into snapshots."""
    monkeypatch.setattr(windows, "INLINE_BYTES", 0)
