"""``mta serve`` of the output folder of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mta.cli import main
from mta.cli.console import own_command
from tests.serve.conftest import KEYS, Published
from tests.support.serving import Served


@pytest.mark.parametrize("inner", ["", "run"])
def test_a_run_is_served_from_its_folder(inner: str, tmp_path: Path) -> None:
    """The folder of a demo has the run's in it."""
    published = Published(f"file://{tmp_path / 'pages'}")
    note = {"publish": published.name, "store": published.store}
    (tmp_path / "out" / inner).mkdir(parents=True)
    (tmp_path / "out" / inner / "job.json").write_text(json.dumps(note))
    with Served(None, str(tmp_path / "out")) as service:
        status = service.get("/v1/status").json
        assert (status["name"], status["keys"]) == (published.name, len(KEYS))


def test_a_run_that_publishes_nothing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"publish": None, "store": "file:///pages"}))
    assert main(["serve", str(tmp_path)]) == 2
    assert "run it again with a name" in capsys.readouterr().err


def test_a_command_that_no_shell_finds_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/mta", "demo"])
    monkeypatch.setenv("PATH", "")
    assert own_command() == ".venv/bin/mta"
    monkeypatch.setattr("sys.argv", ["/usr/lib/python3/spark_integration/cli/__main__.py"])
    assert own_command() == "mta"
