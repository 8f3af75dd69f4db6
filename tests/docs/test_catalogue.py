"""The page of the catalogue: every aggregation of other libraries, and its name here or why not."""

from __future__ import annotations

import pytest

from mta.monoids.catalogue import NAMES
from tests.support.other_libraries import LIBRARIES, PAGE, functions_of, page, split


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tests.support.other_libraries"


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_function_of_an_installed_library_is_here_or_has_a_reason(library: str) -> None:
    try:
        functions = functions_of(library)
    except ImportError as error:
        pytest.skip(f"{library} is not installed: {error}")
    assert len(functions) > 15
    assert functions - LIBRARIES[library].keys() == set()


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_name_in_the_tables_is_known_and_every_reason_says_something(library: str) -> None:
    for function, entry in LIBRARIES[library].items():
        name, remark = split(entry)
        assert name in NAMES if name else len(remark) > 5, function
