"""What scripts rely on: exit codes, JSON documents, how much is printed, and completion."""

from __future__ import annotations

import errno
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mta.errors
import spark_integration.errors
import stores.errors
from mta import CountWindow, KeyedWindows, Max, SharedWindows, TimeWindow
from mta.cli import main
from mta.cli.commands import CommandLine, command_line
from mta.cli.console import _BY_CLASS, MEANINGS, Exit, exit_code, note, note_item, say
from spark_integration.cli.demo import DemoFailed
from spark_integration.cli.progress import RunFailed, explain
from stores import open_store
from stores.errors import WindowStoreError, pip_install
from tests.support.documents import DOCS

PAGE = (DOCS / "commands.md").read_text()
COMMANDS = sorted(command_line().commands)


def errors() -> dict[str, type[Exception]]:
    """Every error of the project by its name."""
    modules = (stores.errors, mta.errors, spark_integration.errors)
    found = {name: kind for each in modules for name, kind in vars(each).items()
             if isinstance(kind, type) and issubclass(kind, WindowStoreError)}  # fmt: skip
    return found | {"RunFailed": RunFailed, "DemoFailed": DemoFailed}


def test_every_name_in_the_table_is_an_error_and_every_code_is_documented() -> None:
    assert _BY_CLASS.keys() <= errors().keys()
    assert set(MEANINGS) == set(Exit)
    shown = CommandLine().parser.format_help()
    for code, meaning in MEANINGS.items():
        assert re.search(rf"^ +{code} {re.escape(meaning)}$", shown, re.MULTILINE)
        assert f"| {code} | {meaning} |" in PAGE


#: What commands cannot do without.
NEEDED = {
    "run": ["in"], "inspect": ["x"], "check": ["x"], "gc": ["x"], "serve": ["x"],
    "unpublish": ["x", "--store", "memory://"], "migrate": ["a", "b", "--store", "memory://"],
    "erase": ["a", "--key", "b", "--store", "memory://"], "device": ["x"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_with_the_code_of_its_error(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {
        "StoreAccessDenied": 4, "StoreUnavailable": 5, "StoreFull": 6, "StoreDamaged": 3,
        "CorruptPage": 3, "MissingPage": 3, "CorruptSnapshot": 3, "CorruptState": 3,
        "InvalidRequest": 2, "InvalidStoreURL": 2, "LateEvent": 2, "MissingDependency": 2,
        "InvariantViolation": 1,
    }  # fmt: skip
    line = command_line()
    for error, code in wanted.items():
        kind = errors()[error]

        def fail(kind: type[Exception] = kind, **_: object) -> None:
            raise kind("this is what to do")

        line.commands[name].set_defaults(command=fail)
        assert line.run([name, *NEEDED.get(name, [])]) == code, error
        assert capsys.readouterr() == ("", "mta: this is what to do\n")

    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    line.commands[name].set_defaults(command=interrupt)
    assert line.run([name, *NEEDED.get(name, [])]) == 130
    with pytest.raises(SystemExit) as caught:
        line.run([name, "--no-such-option"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("StoreUnavailable: redis://host does not answer", Exit.UNAVAILABLE),
        ("StoreAccessDenied: redis://host refused", Exit.DENIED),
        ("StoreFull: the disk of file:///x is full", Exit.NO_SPACE),
        ("MissingPage: page a/0/1 is not in file:///x", Exit.DAMAGED),
        ("LateEvent: an event is older", Exit.USAGE),
        ("the run stopped: StoreUnavailable: redis://host does not answer", Exit.UNAVAILABLE),
        ("SparkOutOfMemory: whatever", Exit.FAILED),
        ("write failed: No space left on device", Exit.NO_SPACE),
    ],
)
def test_a_failed_query_ends_with_the_code_of_what_its_worker_raised(text: str, code: Exit) -> None:
    assert exit_code(RunFailed(text)) is code


def test_errors_of_the_system_have_codes_and_bugs_have_none() -> None:
    assert exit_code(PermissionError(errno.EACCES, "denied")) is Exit.DENIED
    assert exit_code(OSError(errno.ENOSPC, "full")) is Exit.NO_SPACE
    assert exit_code(OSError(errno.EIO, "broken")) is None
    assert exit_code(ZeroDivisionError()) is None


def test_a_full_disk_of_sparks_says_what_to_do() -> None:
    stack = "\n\tat org.apache.spark.x(x.scala:1)"
    text = f"[TASK_WRITE_FAILED] Task failed.{stack}\nCaused by: java.io.IOException: "
    reported = explain(Exception(f"{text}No space left on device{stack}"))  # type: ignore[arg-type]
    assert "No space left on device: make room on the disk of the output folder" in reported
    assert "run the command again: it continues" in reported
    assert exit_code(RunFailed(reported)) is Exit.NO_SPACE


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A store, and a folder with a snapshot of multiple windows and a snapshot."""
    address = f"file://{tmp_path / 'pages'}?map_size=64MiB"
    values = np.arange(2000.0)
    with open_store(address) as store:
        frames = {"hour": TimeWindow("1 hour"), "day": TimeWindow("1 day")}
        several = SharedWindows(Max(), frames, store, "several", arity=8, leaf_arity=64)
        several.extend(values, np.arange(2000) * 10)
        (tmp_path / "several").write_bytes(several.checkpoint())
        keyed = KeyedWindows(Max(), CountWindow(100), store, "keyed")
        keyed.extend([f"k{i % 7}" for i in range(2000)], values)
        (tmp_path / "snapshot").write_bytes(keyed.checkpoint())
    yield address, tmp_path


def document(
    capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, dict[str, object]]:
    code = main([*map(str, arguments), "--json"])
    printed = capsys.readouterr()
    assert printed.err == ""
    found = json.loads(printed.out)
    assert isinstance(found, dict)
    return code, found


def test_inspect_as_json(saved: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    address, folder = saved
    with open_store(address) as store:
        count = len([*store.keys()])
    code, found = document(capsys, "inspect", folder / "several", "--store", address)
    assert code == 0
    (window,) = found["windows"]  # type: ignore[misc]
    assert (window["key"], window["events"], window["newest"]) == (
        "several", 2000, "1970-01-01T05:33:10.000000Z",
    )  # fmt: skip
    assert {each["window"]: each["events"] for each in window["windows"]} == {
        "hour": 360, "day": 2000,
    }  # fmt: skip
    assert (found["store"], found["pages"], found["aggregation"]) == (
        address, count, "Max",
    )  # fmt: skip
    assert int(str(found["disk_bytes"])) > 0
    code, found = document(
        capsys, "inspect", folder / "snapshot", "--store", address, "--limit", "2"
    )
    assert (code, found["keys"], found["events"], len(found["windows"])) == (0, 7, 700, 2)  # type: ignore[arg-type]


def test_check_as_json(saved: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    address, folder = saved
    code, found = document(capsys, "check", folder / "several", "--store", address)
    assert (code, found["damaged"]) == (0, [])
    with open_store(address) as store:
        lost = next(key for key in store.keys("several/0/"))
        store.delete_many([lost])
    code, found = document(capsys, "check", folder / "several", "--store", address)
    (damage,) = found["damaged"]  # type: ignore[misc]
    assert (code, damage["page"]) == (3, lost)
    assert "restore a copy of it" in damage["remedy"]
    assert found["store"] == address and int(str(found["verified"])) > 0


def test_gc_as_json(saved: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    address, folder = saved
    arguments = ("gc", folder / "snapshot", folder / "several", "--store", address)
    code, found = document(capsys, *arguments)
    assert (code, found["unneeded"], found["deleted"], found["to_delete"]) == (0, [], 0, 0)
    code, found = document(capsys, "gc", "--name", "several", "--store", address)
    names = found["unneeded"]
    assert isinstance(names, list) and names and all(n.startswith("several/") for n in names)
    assert found["to_delete"] == len(names) and int(str(found["unneeded_bytes"])) > 0
    _, found = document(capsys, "gc", "--name", "several", "--store", address, "--delete")
    assert (found["deleted"], found["to_delete"]) == (len(names), 0)


def test_a_command_that_fails_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "no/such/file", "--json", "--store", "memory://"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_quiet_and_verbose(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = command_line()
    given = NEEDED.get(name, [])

    def command(**options: object) -> None:
        assert not {"quiet", "verbose", "as_json"} & options.keys()
        say("a line")
        logging.getLogger("stores.x").debug("a detail")
        logging.getLogger("stores.x").warning("a warning")
        raise WindowStoreError("this is what to do")

    line.commands[name].set_defaults(command=command)
    for option, out, lines in (
        ([], "a line\n", ["mta: a warning"]),
        (["--quiet"], "", []),
        (["-v"], "a line\n", ["mta: a detail", "mta: a warning", "Traceback"]),
    ):
        assert line.run([name, *given, *option]) == 2
        printed = capsys.readouterr()
        assert printed.out == out
        assert printed.err.endswith("mta: this is what to do\n")
        assert [text for text in ("mta: a detail", "mta: a warning", "Traceback")
                if text in printed.err] == lines  # fmt: skip
    say("outside of a command lines are printed")
    note(nothing=1)
    note_item("nothing")
    assert capsys.readouterr().out == "outside of a command lines are printed\n"


def completed(script: Path, line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    bash = f"""
source {script}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
$(complete -p mta | sed 's/.*-F \\([^ ]*\\).*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", bash], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    pytest.importorskip("shtab", reason="NOT TESTED: shtab is not installed")
    command = [sys.executable, "-m", "mta", "--print-completion"]
    script = subprocess.run([*command, "bash"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "mta.bash").write_text(script)
    offered = completed(tmp_path / "mta.bash", "mta ")
    assert set(COMMANDS) <= set(offered)
    assert completed(tmp_path / "mta.bash", "mta mig") == ["migrate"]
    assert "--key-from-file-name" in completed(tmp_path / "mta.bash", "mta run --key")
    assert {"--json", "--quiet", "--delete"} <= set(completed(tmp_path / "mta.bash", "mta gc --"))
    assert set(completed(tmp_path / "mta.bash", "mta run --on-late ")) >= {"raise", "drop", "side"}
    wrong = subprocess.run([*command, "nonsense"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "bash, zsh" in wrong.stderr


def test_without_shtab_completion_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as caught:
        main(["--print-completion", "bash"])
    assert caught.value.code == 2
    assert f"needs shtab: {pip_install('completion')}" in capsys.readouterr().err
