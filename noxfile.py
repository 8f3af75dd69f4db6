"""Tests in other environments than ``.venv``, which has Nox itself.

.venv/bin/nox --list            the sessions
.venv/bin/nox -s core kernels   run two of them
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = []

HERE = Path(__file__).parent
PACKAGES = ("mta", "stores", "spark_integration")
PYTEST = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
#: PySpark comes as sources. Compressing its jars, only to unpack them again, takes longer than the
#: rest of the installation.
UNCOMPRESSED = "--config-settings=--build-option=--compression=stored"
OLDEST_SPARKS = ("3.5.9", "4.0.0")
#: The newest version of PySpark for which both kinds of tables have a release.
TABLES = "4.1.4"
#: The oldest versions have no wheels for the newest Python.
OLD_PYTHON = "3.11" if shutil.which("python3.11") or sys.version_info[:2] == (3, 11) else "3.12"
#: The libraries of the time of the oldest PySpark.
OF_ITS_TIME = (
    "pandas==2.2.*", "polars==1.21.*", "pyarrow==15.*", "numpy==1.26.*", "protobuf==5.*",
)  # fmt: skip
#: Suites of numbers, and of pages that are not what they say. What stores and snapshots do is the
#: same without kernels, and tests/kernels runs random windows with and without them.
NUMPY_SUITES = (
    "tests/folds", "tests/evaluators/test_runs.py",
    *(f"tests/keyed/test_{name}.py"
      for name in ("formats", "keys", "random", "rolling", "windows")),
)  # fmt: skip


@nox.session
def core(session: nox.Session) -> None:
    """Test the wheel in an environment without any extra, outside this folder."""
    pip = (sys.executable, "-m", "pip", "--quiet")
    with TemporaryDirectory() as folder:
        source, tests = Path(folder, "source"), Path(folder, "tests")
        for name in PACKAGES:
            shutil.copytree(HERE / name, source / name, ignore=shutil.ignore_patterns("*.so"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(HERE / name, source)
        shutil.copytree(HERE / "tests/core", tests)
        wheel = (*pip, "wheel", "--no-deps", "--wheel-dir", folder, str(source))
        session.run(*wheel, external=True)
        session.install(*map(str, Path(folder).glob("*.whl")), "pytest>=8")
        shutil.rmtree(source)
        python = str(Path(session.bin, "python").absolute())
        session.run(*pip, "--python", python, "check", external=True)
        session.chdir(folder)
        session.run("mta", "--version")
        session.run(*PYTEST, "tests", env={"MTA_CORE_ALONE": "1"})
        doctests = ("--doctest-modules", "--doctest-ignore-import-errors", "--pyargs")
        without_pandas = "not rolling.rolling and not tables.sql"
        session.run(*PYTEST, *doctests, "mta", "stores", "-k", without_pandas)
        session.chdir(HERE)


@nox.session(reuse_venv=True)
def feast(session: nox.Session) -> None:
    """Run the examples of Feast: online, offline and a list agree. Feast pins many versions."""
    session.install("--editable", ".[feast]")
    with TemporaryDirectory() as folder:
        session.chdir(folder)
        for name in ("cards.py", "tiling.py"):
            script = HERE / "examples/feast" / name
            session.run("python", str(script), env={"FEAST_USAGE": "False"})
        session.chdir(HERE)


@nox.session(python=False)
def kernels(session: nox.Session) -> None:
    """Test kernels under sanitizers, and with numpy alone the suites that use kernels."""
    compiler = os.environ.get("CC", "cc")
    headers = Path(sysconfig.get_path("include"))
    if not shutil.which(compiler):
        session.skip(f"no C compiler ({compiler}): compiled kernels are NOT tested")
    if not (headers / "Python.h").exists():
        session.skip(f"no Python.h in {headers} (python3-dev): compiled kernels are NOT tested")
    # Elsewhere, so that nothing built with sanitizers stays here.
    place = Path(session.create_tmp()) / "kernels"
    shutil.rmtree(place, ignore_errors=True)
    for name in ("mta", "stores", "tests"):
        shutil.copytree(HERE / name, place / name, ignore=shutil.ignore_patterns("*.so"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(HERE / name, place)
    session.chdir(place)
    session.run(
        compiler, "-O1", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
        "-ffp-contract=off", "-DPy_LIMITED_API=0x030B0000", "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all", f"-I{headers}",
        *map(str, Path("mta/kernels").glob("*.c")), "-o", "mta/kernels/compiled.abi3.so", "-lm",
    )  # fmt: skip
    asan = subprocess.check_output([compiler, "-print-file-name=libasan.so"], text=True).strip()
    pytest = (sys.executable, *PYTEST[1:], "-n", "0")
    paths = {"PYTHONPATH": str(place.absolute())}
    # Python itself is not built with sanitizers.
    sanitized = {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "MTA_KERNELS": "native"}
    session.run(*pytest, "tests/kernels", env=paths | sanitized)
    suites = (*NUMPY_SUITES, "-k", "not fails")
    session.run(*pytest, *suites, env=paths | {"MTA_KERNELS": "numpy"})


@nox.session(python=OLD_PYTHON, reuse_venv=True)
@nox.parametrize("version", OLDEST_SPARKS)
def spark(session: nox.Session, version: str) -> None:
    """Test the core of the Spark suites with an old PySpark, today's libraries and old ones."""
    _install_spark(session, version)
    old = Path(session.virtualenv.location, "of-its-time")
    if not old.exists():
        session.install("--target", str(old), *OF_ITS_TIME)
    paths = {"PATH": _path_with_java(session)}
    of_its_time = paths | {"PYTHONPATH": str(old.absolute())}
    session.run(*PYTEST, "tests/spark/test_fresh.py", env=paths)
    session.run(
        *PYTEST, "-W", "ignore", "-k", "not redis", "tests/spark/test_versions.py", env=of_its_time
    )
    if version == OLDEST_SPARKS[0]:
        polars = ("tests/windows/test_inputs.py", "tests/keyed/test_rolling.py")
        session.run(*PYTEST, "-k", "polars", *polars, env=of_its_time)


@nox.session(python=OLD_PYTHON, reuse_venv=True)
def tables(session: nox.Session) -> None:
    """Test tables of Delta and Iceberg (``-- -m soak`` for the long form)."""
    _install_spark(session, TABLES)
    paths = {"PATH": _path_with_java(session)}
    suites = ("tests/examples/test_examples.py", "tests/spark/test_tables.py")
    for table in ("delta", "iceberg"):
        session.run(*PYTEST, *session.posargs, *suites, "-k", f"table and {table}", env=paths)


@nox.session(reuse_venv=True)
def docs(session: nox.Session) -> None:
    """Make the site, which needs no network; fails where a link or a name leads nowhere."""
    session.install(*_extra("docs"))
    session.run(
        "python", "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file",
        "docs/site/mkdocs.yml", env={"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    session.log("open docs-output/index.html")


@nox.session(python=False)
def short_soak(session: nox.Session) -> None:
    """Run what CI has time for of the long runs that "make test" leaves out.

    Fifteen writers, fifteen times a device, and some drivers are killed, sixty windows live at
    random, a cluster loses a worker, and the packages are shipped to another; then come the
    scenarios that start Javas of their own, or start queries many times.
    """
    names = {
        "reliability": "kills soak", "windows": "random", "device": "broker",
        "spark": "fire shipping connect starting migration publishing second_format "
        "streaming",
        "cli": "mistakes rights_and_room",
    }  # fmt: skip
    paths = [f"tests/{suite}/test_{name}.py" for suite in names for name in names[suite].split()]
    session.run(
        sys.executable, "-m", "pytest", "-m", "soak and not sample", *paths,
        "-k", "not speculation and not million and not killed_drivers",
        "-n", "2", "--dist", "worksteal", "--capture=fd", "-rP", env={"MTA_SOAK_KILLS": "15"},
    )  # fmt: skip


def _extra(name: str) -> list[str]:
    """Return what an extra of the package requires."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    found: list[str] = project["optional-dependencies"][name]
    return found


def _install_spark(session: nox.Session, version: str) -> None:
    session.install(
        UNCOMPRESSED, f"pyspark=={version}", *_extra("spark"), "redis", "msgpack", "lmdb", "xxhash",
        "pytest>=8", "hypothesis",
    )  # fmt: skip


def _path_with_java(session: nox.Session) -> str:
    """Return a PATH that begins with a Java that these versions run on; else skip the session."""
    java = subprocess.check_output([sys.executable, "-m", "spark_integration.java"], text=True)
    said = subprocess.run([java.strip(), "-version"], capture_output=True, text=True).stderr
    if not re.search(r'version "(17|18|19|20|21|22|23)\b', said):
        session.skip("these versions of PySpark need Java 17 to 23")
    return f"{Path(java.strip()).parent}:{os.environ['PATH']}"
