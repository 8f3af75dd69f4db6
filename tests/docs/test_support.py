"""The page of what is supported where says what the tests say."""

from __future__ import annotations

from tests.support.supported import PAGE, TABLES, claims, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "make it again: python -m tests.support.supported"


def test_every_table_has_rows_and_every_column_a_test() -> None:
    found = claims()
    assert len(found) > 60
    for table, (columns, _) in TABLES.items():
        assert {*columns} <= {claim.column for claim in found if claim.table == table}
