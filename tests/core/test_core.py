"""What an install of the core alone can do: windows, stores, and the commands on saved snapshots.

These tests need pytest and the core (numpy, msgpack, lmdb, xxhash), and nothing of the other tests.
``.ci/run`` runs them where there is no more than that, and the package comes from its wheel; where
more is installed, they run as if it were not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from typing import NamedTuple

import pytest

import mta
from mta import CountWindow, Max, Mean, SharedWindows, Sum, TimeWindow, Window
from mta.algorithms import FiBA, LogMTA, PagedFlatFAT
from stores import open_store
from stores.errors import pip_install

EXTRAS = (
    "couchbase", "datasketches", "google", "matplotlib", "obstore", "pandas", "pyarrow",
    "pyspark", "redis", "zstandard",
)  # fmt: skip
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"
WHOLE = "from mta.cli import main; sys.exit(main())"
#: The packages that users import, without those of extras.
PUBLIC = (
    "mta", "mta.aggregations", "mta.frames", "mta.algorithms", "mta.results", "mta.published",
    "mta.audit", "mta.client", "mta.testing", "mta.datasets", "stores",
)  # fmt: skip
BARE = "import runpy; runpy.run_module('mta', run_name='__main__')"
#: Runs several commands in one process, and prints each one's code and what it has printed.
SEVERAL = """
import json, runpy
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
for sys.argv[1:] in json.loads(sys.argv[1]):
    out, err = StringIO(), StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            exec(command)
    except SystemExit as ended:
        print(json.dumps((ended.code or 0, out.getvalue(), err.getvalue())))
"""
EVENTS = [float(at * 37 % 101) for at in range(500)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["stores.py", "stores/__init__.py", "stores/errors.py"])
@pytest.mark.parametrize("package", ["mta", "mta.errors", "spark_integration", "mta.__main__"])
def test_a_folder_of_ones_own_that_hides_a_package_is_named(
    tmp_path: Path, name: str, package: str
) -> None:
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    (mine.parent / "__init__.py").touch() if "/" in name else None
    mine.write_text("SHOPS = ['corner']\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {package}"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 1
    hidden = tmp_path / ("stores.py" if "/" not in name else "stores/__init__.py")
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: the package 'stores'") and f"hidden by {hidden}" in last
    assert "rename that file or folder" in last


@pytest.mark.proves("platforms", "the core without extras, installed from its wheel", "Linux")
def test_nothing_but_the_core_is_installed() -> None:
    if "MTA_CORE_ALONE" not in os.environ:
        pytest.skip("here more may be installed")
    assert not [name for name in EXTRAS if name != "google" and find_spec(name)]
    assert "site-packages" in str(mta.__file__)


def test_the_wheel_holds_the_product_alone() -> None:
    if "MTA_CORE_ALONE" not in os.environ:
        pytest.skip("here the package may be a checkout")
    installed = {file.parts[0] for file in distribution("mta-windows").files or ()}
    packages = {name for name in installed if not name.endswith(".dist-info") and name != ".."}
    assert packages == {"mta", "stores", "spark_integration"}
    assert distribution("mta-windows").version == mta.__version__


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def commands(entry: str, *given: list[object]) -> list[Done]:
    """What commands do, one after the other in one process."""
    texts = json.dumps([[str(argument) for argument in arguments] for arguments in given])
    done = python(f"{WITHOUT}command = {entry!r}{SEVERAL}", texts)
    assert (done.returncode, done.stderr) == (0, "")
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture(params=[WHOLE, BARE], ids=["mta", "python -m mta"])
def entry(request: pytest.FixtureRequest) -> str:
    code: str = request.param
    return code


@pytest.fixture
def saved(tmp_path: Path) -> tuple[str, Path]:
    """A store, and the snapshot of two windows in it."""
    address = f"file://{tmp_path / 'pages'}?map_size=16MiB"
    with open_store(address) as store:
        frames = {"few": CountWindow(64), "hour": TimeWindow("90 minutes")}
        windows = SharedWindows(Max(), frames, store, "w", arity=4, leaf_arity=8)
        windows.extend(EVENTS, [60 * at for at in range(len(EVENTS))])
        snapshot = tmp_path / "saved.snapshot"
        snapshot.write_bytes(windows.checkpoint())
    return address, snapshot


def test_the_process_of_a_command_ends_with_its_code() -> None:
    done = python(WITHOUT + WHOLE, "inspect", "no-such-file")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mta: ")


def test_help_version_and_what_only_spark_reads(entry: str, tmp_path: Path) -> None:
    """The version tells what results depend on."""
    usage, version, of_spark = commands(entry, ["--help"], ["--version"], ["inspect", tmp_path])
    assert (usage.returncode, usage.stderr) == (0, "")
    for command in ("inspect", "check", "gc"):
        assert f"\n    {command} " in usage.stdout
    assert (version.returncode, version.stderr) == (0, "")
    reported = dict(line.split(maxsplit=1) for line in version.stdout.splitlines())
    assert reported["mta"] == mta.__version__
    assert list(reported) == ["mta", "python", "numpy", "kernels", "stores", "spark"]
    assert reported["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert reported["stores"] == "memory, file"
    assert of_spark.returncode == 2
    assert "Spark" in of_spark.stderr or pip_install("spark") in of_spark.stderr


def test_the_commands_on_a_saved_snapshot(entry: str, saved: tuple[str, Path]) -> None:
    address, snapshot = saved
    with open_store(address) as store:
        before = sorted(store.keys())
        leaf = max(key for key in before if key.startswith("w/0/"))
        store.put_many({f"w/0/1/{'ab' * 16}": b"garbage"})
    given = snapshot, "--store", address
    every = commands(entry, ["inspect", *given], ["check", *given], ["gc", *given, "--delete"])
    assert [(done.returncode, done.stderr) for done in every] == 3 * [(0, "")]
    inspected, checked, _ = every
    assert "frame     few=CountWindow(64), hour=TimeWindow(90 minutes)\n" in inspected.stdout
    assert "damaged   none" in checked.stdout
    with open_store(address) as store:
        assert sorted(store.keys()) == before
        store.delete_many([leaf])
    (done,) = commands(entry, ["check", *given])
    assert done.returncode == 3
    assert f"page {leaf} " in done.stdout


def test_commands_of_spark_say_what_to_install(tmp_path: Path) -> None:
    given: dict[str, list[object]] = {
        "run": ["events.csv"],
        "demo": ["--output", tmp_path / "demo"],
        "migrate": [tmp_path, tmp_path / "new", "--store", "file:///pages"],
    }
    every = commands(WHOLE, *([command, *arguments] for command, arguments in given.items()))
    for command, done in zip(given, every, strict=True):
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"mta: 'mta {command}' needs ")
        assert done.stderr.endswith(f": {pip_install('spark')}\n")


def test_what_needs_a_library_says_what_to_install() -> None:
    """Stores, and Spark's windows."""
    extras = {"redis": "redis", "couchbase": "couchbase", "s3": "objects", "az": "objects"}
    code = f"""
from stores import open_store
for scheme in {list(extras)}:
    try:
        open_store(scheme + "://host/0")
    except Exception as error:
        print(error)
from spark_integration import sliding_aggregate
"""
    done = python(WITHOUT + code)
    lines = [*done.stdout.splitlines(), done.stderr.splitlines()[-1]]
    for line, extra in zip(lines, [*extras.values(), "spark"], strict=True):
        assert line.endswith(pip_install(extra))


@pytest.mark.parametrize("kind", [None, LogMTA, FiBA, PagedFlatFAT])
def test_a_window_goes_on_from_its_snapshot(kind: type | None, tmp_path: Path) -> None:
    how = {} if kind is None else {"aggregator": kind}
    address = f"file://{tmp_path / 'pages'}?map_size=16MiB"
    with open_store(address) as store:
        window = Window(Mean(), CountWindow(50), store, "w", arity=4, leaf_arity=8, **how)
        window.extend(EVENTS[:300])
        snapshot = window.checkpoint()
    with open_store(address) as store:
        window = Window.restore(snapshot, store, aggregations=Mean(), window=CountWindow(50), **how)
        found = list(window.extend(EVENTS[300:]))
    expected = [sum(EVENTS[at - 49 : at + 1]) / 50 for at in range(300, 500)]
    assert found == pytest.approx(expected, rel=1e-12)


def test_windows_in_memory_alone() -> None:
    window = Window(Sum(), TimeWindow("10 seconds"))
    assert list(window.extend([1.0, 2.0, 4.0], [0, 5, 12])) == [1.0, 3.0, 6.0]
    assert window.query() == 6.0


def test_every_public_name_is_there() -> None:
    for package in PUBLIC:
        module = import_module(package)
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert mta.__all__


def test_every_module_of_the_core_needs_no_extra() -> None:
    """All but those whose library is an extra; in one process, as a user would import them."""
    extra = (
        "mta.__main__",
        "stores.redis",
        "stores.couchbase",
        "stores.object_store",
        "mta.monoids.sketches",
        "mta.dataframes.of_",
        "mta.serve",
        "mta.feast",
        "mta.queries",
        "mta.service",
    )
    names = [
        found.name
        for package in (mta, import_module("stores"))
        for found in walk_packages(package.__path__, f"{package.__name__}.")
    ]
    core = [name for name in names if not name.startswith(extra)]
    assert len(core) > 60
    done = python(WITHOUT + f"import importlib\nfor name in {core}: importlib.import_module(name)")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_package_is_whole() -> None:
    for package in ("mta", "stores", "spark_integration"):
        assert (files(package) / "py.typed").is_file()
    assert (files("spark_integration") / "log4j2.properties").is_file()


@pytest.mark.proves("platforms", "systems without fork and file locks", "others, simulated")
def test_systems_that_neither_fork_nor_lock_files(tmp_path: Path) -> None:
    """As on Windows: no fork, no hooks around it, no ``fcntl``, no folders to be synced."""
    code = f"""
import os, sys
for name in ("fork", "forkpty", "register_at_fork", "sched_getaffinity", "O_DIRECTORY"):
    if hasattr(os, name):
        delattr(os, name)
sys.modules["fcntl"] = None
import lmdb, mta
from mta import CountWindow, Max, Window
from stores import open_store
from stores.testing import CountingStore
with open_store("file://{tmp_path}/pages?map_size=16MiB") as store:
    window = Window(Max(), CountWindow(9), CountingStore(store), "w", arity=2, leaf_arity=2)
    window.extend([float(at) for at in range(99)])
    snapshot = window.checkpoint()
with open_store("file://{tmp_path}/pages?map_size=16MiB") as store:
    again = Window.restore(snapshot, store)
    again.insert(0.0)
    assert again.query() == 98.0
"""
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
