"""Which modules have their doctests run."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

#: Clients that some platforms have no wheel of; their tests are skipped there too.
collect_ignore_glob = [
    f"stores/{module}*.py"
    for module, library in {"couchbase": "couchbase", "object_store": "obstore"}.items()
    if not find_spec(library)
]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[None]:
    """Leave modules without an example out, as to look for one among all names takes long."""
    found = yield
    return [
        each
        for each in found
        if not isinstance(each, DoctestModule) or b">>> " in file_path.read_bytes()
    ]
