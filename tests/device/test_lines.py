"""Lines of standard input: formats, times, periods, bounds, restarts and mistakes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mta.cli.commands import CommandLine
from mta.declarations import InvalidDeclaration
from mta.device.config import read_config
from mta.device.windows import DeviceWindows

SETTINGS = """
folder = "{folder}"
keys = "device"
time = "ts"
input = "{source}"
{more}
[frames]
minute = "1 minute"
few = 3
[aggregations]
peak = ["watts", "max"]
n = "count"
{rest}
"""


def config(tmp_path: Path, more: str = "", rest: str = "", source: str = "json") -> Path:
    path = tmp_path / "config.toml"
    folder = tmp_path / "state"
    path.write_text(SETTINGS.format(folder=folder, more=more, rest=rest, source=source))
    return path


def run(path: Path, lines: Iterable[Any]) -> tuple[list[dict[str, Any]], str]:
    """What a device prints for lines: results, and what it says to a person."""
    text = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines)
    command = [sys.executable, "-m", "mta", "device", str(path)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def events(count: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {"device": f"d{rng.randrange(3)}", "ts": n * rng.choice([7, 7, 8]), "watts": rng.random()}
        for n in range(count)
    ]


def expected(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results after each event, from plain lists."""
    lists: dict[str, list[tuple[int, float]]] = {}
    found, newest = [], {}
    for each in given:
        key, ts = each["device"], each["ts"]
        if ts < newest.get(key, 0):
            continue
        newest[key] = ts
        lists.setdefault(key, []).append((ts, each["watts"]))
        minute = [w for t, w in lists[key] if t > ts - 60]
        few = [w for _, w in lists[key][-3:]]
        found.append({"key": key, "peak_minute": max(minute), "n_minute": len(minute),
                      "peak_few": max(few), "n_few": len(few)})  # fmt: skip
    return found


def without_time(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name != "time"} for each in results]


@pytest.mark.parametrize("source", ["json", "csv"])
def test_results_after_each_event_over_a_restart(tmp_path: Path, source: str) -> None:
    given = events(300)
    lines: list[Any] = list(given)
    header: list[Any] = []
    if source == "csv":
        lines = [f"{e['watts']!r},{e['device']},{e['ts']}" for e in given]
        header = ["watts,device,ts"]
    path = config(tmp_path, source=source)
    first, _ = run(path, header + lines[:170])
    # The second run begins with lines that the first one had.
    second, said = run(path, header + lines[100:])
    assert without_time(first + second) == expected(given)
    late = len(given) - len(expected(given))
    assert f"{len(second)} events" in said
    assert sum(int(said.split(word)[0].split()[-1]) for word in (" dupl", " late")) >= 70 + late / 9


def test_what_no_event_is_is_counted_and_said(tmp_path: Path) -> None:
    good = {"device": "a", "ts": "2024-05-01T00:00:00Z", "watts": 1}
    bad: list[Any] = [
        "nothing", '{"device":', "[1]", {"ts": 1, "watts": 1}, {"device": "a", "watts": 1},
        good | {"watts": "much"}, good | {"ts": "noon"}, good | {"ts": 1e30}, good | {"ts": []},
        good | {"device": {"a": 1}}, good | {"watts": [1]}, good | {"ts": True, "watts": []},
        "\udcff".encode("utf-8", "surrogatepass").decode("latin-1"), "[" * 5000, "1" * 5000,
        good | {"device": "x" * 1025}, good | {"device": "\ud800"},
    ]  # fmt: skip
    found, said = run(config(tmp_path), [*bad, good, good | {"watts": None, "id": 2}])
    assert [each["peak_minute"] for each in found] == [1.0, 1.0]
    assert [each["n_minute"] for each in found] == [1, 2]
    assert f"{len(bad)} invalid" in said and "watts is 'much'" in said


def test_lines_of_csv_that_are_no_events_do_not_take_others_with_them(tmp_path: Path) -> None:
    bad = ["a,1", "a,1,2,3", 'a,1,"2', "a,noon,2", "a,1e30,2", ",1,2"]
    lines = ["device,ts,watts", "a,1,5", *bad, "a,2,7", 'a,3,"9"']
    found, said = run(config(tmp_path, source="csv"), lines)
    assert [each["peak_few"] for each in found] == [5.0, 7.0, 9.0]
    assert f"{len(bad)} invalid" in said


def test_digits_are_a_number_and_not_a_date(tmp_path: Path) -> None:
    more, moment = 'time_unit = "ms"', "2023-11-26T14:48:20"
    path = config(tmp_path, more=more, source="csv")
    found, _ = run(path, ["device,ts,watts", "a,1701010100000,1", f"b,{moment}Z,1"])
    assert [each["time"] for each in found] == [f"{moment}.000000Z"] * 2


def test_results_that_a_period_has_not_reported_yet_come_at_the_end(tmp_path: Path) -> None:
    found, _ = run(config(tmp_path, more='emit_every = "1 hour"'), events(50))
    last = {each["key"]: each for each in expected(events(50))}
    assert found == [last[key] for key in sorted(last)]


def test_events_of_one_time_differ_by_their_id(tmp_path: Path) -> None:
    lines = [{"device": "a", "ts": 5, "watts": w, "number": n} for w, n in ((1, 1), (1, 2), (9, 2))]
    found, said = run(config(tmp_path, more='id = "number"'), lines)
    assert [each["n_few"] for each in found] == [1, 2] and "1 duplicates" in said
    again, said = run(config(tmp_path, more='id = "number"'), lines)
    assert not again and "3 duplicates" in said


def test_late_events_within_the_allowed_lateness_count_once(tmp_path: Path) -> None:
    path = config(tmp_path, more='allowed_lateness = "30 seconds"')
    lines = [{"device": "a", "ts": ts, "watts": 1.0} for ts in (0, 40, 20, 50, 20)]
    _, said = run(path, lines)
    assert "4 events, 1 duplicates, 0 late" in said
    found, said = run(path, [lines[2], {"device": "a", "ts": 51, "watts": 3.0}, lines[0]])
    assert "1 events, 1 duplicates, 1 late" in said and found[0]["n_minute"] == 5


def test_bounds_are_reported_when_they_are_crossed(tmp_path: Path) -> None:
    rest = '[bounds]\nhot = ["peak_few", "above", 10]\nfew = ["n_minute", "below", 2]\n'
    path = config(tmp_path, more='emit_every = "bound"', rest=rest)
    watts = [1, 20, 30, 1, 1, 1, 11]
    lines = [{"device": "a", "ts": n, "watts": w} for n, w in enumerate(watts)]
    found, _ = run(path, lines[:3])
    assert [(f["bound"], f["crossed"]) for f in found] == [
        ("few", True), ("hot", True), ("few", False),
    ]  # fmt: skip
    found, _ = run(path, lines[3:])  # the bound that was crossed before the restart stays crossed
    assert [(f["bound"], f["crossed"], f["peak_few"]) for f in found] == [
        ("hot", False, 1.0), ("hot", True, 11.0),
    ]  # fmt: skip


def test_periodic_results_systemd_and_sigterm(tmp_path: Path) -> None:
    path = config(tmp_path, more='emit_every = "0.5 seconds"')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        address = f"/tmp/mta-notify-{os.getpid()}"
        link.bind(address)
        link.settimeout(60)
        child = subprocess.Popen(
            [sys.executable, "-m", "mta", "device", str(path)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"NOTIFY_SOCKET": address},
        )  # fmt: skip
        try:
            assert link.recv(1000) == b"READY=1"
            assert child.stdin is not None and child.stdout is not None
            child.stdin.writelines(json.dumps(each) + "\n" for each in events(50))
            child.stdin.flush()
            found = [json.loads(child.stdout.readline()) for _ in range(3)]
            assert [each["key"] for each in found] == ["d0", "d1", "d2"]
            last = {each["key"]: each for each in expected(events(50))}
            assert without_time(found) == [last[key] for key in sorted(last)]
            child.send_signal(signal.SIGTERM)
            _, said = child.communicate(timeout=60)
            assert child.returncode == 0 and "events" in said
            seen = b""
            while b"STOPPING=1" not in seen:
                seen = link.recv(1000)
        finally:
            child.kill()
            os.unlink(address)
    windows = DeviceWindows(read_config(path))
    assert len(windows.windows) == 3
    windows.windows.close()


def test_the_state_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = DeviceWindows(read_config(config(tmp_path)))
    steps = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (steps.append("sync"), fsync(file))[1])

    def renamed(path: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", renamed)
    windows.save()
    assert steps[-3:] == ["sync", "rename", "sync"]
    windows.windows.close()


def test_the_format_of_a_state_is_that_of_its_golden_file(tmp_path: Path) -> None:
    path = config(tmp_path, rest='[bounds]\nhot = ["peak_few", "above", 0.5]\n')
    run(path, events(9))
    golden = Path(__file__).parent / "golden" / "state"
    assert (tmp_path / "state" / "state").read_bytes() == golden.read_bytes()
    (tmp_path / "state" / "state").write_bytes(golden.read_bytes())
    found, _ = run(path, events(20)[9:])
    assert without_time([f for f in found if "bound" not in f]) == expected(events(20))[9:]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('input = "json"', 'input = "kafka"', "input is json or csv or mqtt, not 'kafka'"),
        ('input = "json"', 'input = "mqtt"\nbroker = "mqtt://x"', "needs a topic"),
        ('input = "json"', 'input = "mqtt"\nbroker = "http://x"', "broker is mqtt://HOST"),
        ('input = "json"', 'input = "mqtt"\nbroker = "mqtt://x:y"', "[Pp]ort"),
        ('input = "json"', 'input = "json"\noutput = ["mqtt"]', "needs a broker"),
        ('input = "json"', 'input = "json"\noutput = ["file"]', "output lists stdout and mqtt"),
        ('input = "json"', 'input = "json"\nemit_every = "often"', "often"),
        ('input = "json"', 'input = "json"\nemit_every = [1]', "emit_every"),
        ('input = "json"', 'input = "json"\nsnapshot_events = true', "snapshot_events is a whole"),
        ('input = "json"', 'input = "json"\nin_flight = 0', "from 1 to 65535"),
        ('input = "json"', 'input = "json"\ntime_unit = "h"', "time_unit is s or ms"),
        ('keys = "device"', 'key = "device"', "no setting 'key'; did you mean keys"),
        ('keys = "device"', "keys = 7", "keys lists names of columns"),
        ("few = 3", "few = 0", "at least 1 event"),
        ('"max"', '"biggest"', "biggest"),
        ('"watts"', "7", "a column is text"),
        ("[frames]", "[windows]", "no setting 'windows'"),
        ("[frames]", "[bounds]", "declare a frame"),
        ("[frames]", '[bounds]\nx = ["peak", "above", 1]\n[frames]', "RESULT"),
        ("[frames]", '[bounds]\nx = ["n_few", "under", 1]\n[frames]', "above or below"),
        ("[frames]", "[frames]]", "not TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = config(tmp_path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InvalidDeclaration, match=says):
        read_config(path)
    assert CommandLine().run(["device", str(path)]) == 2


def test_a_damaged_state_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path)
    run(path, events(5))
    state = tmp_path / "state" / "state"
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    assert CommandLine().run(["device", str(path)]) == 3
    assert str(state) in capsys.readouterr().err
    assert CommandLine().run(["device", str(tmp_path / "none.toml")]) == 2
