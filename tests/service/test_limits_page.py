"""The web page of a service that takes events, in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.serve.test_page import TIMEOUT, chromium, until
from tests.service.test_service import declared_in
from tests.support.services import Serving

__all__ = ["chromium"]
NAME = "<b>bold</b>"


def test_the_page_shows_limits_and_what_was_refused(chromium: Any, tmp_path: Path) -> None:
    with Serving(declared_in(tmp_path), create=True) as service:
        service.wait_until_all_shards_are_owned()
        service.add({"user": NAME, "amount": 90})
        assert service.add({"user": NAME, "amount": 20}).status == 409
        page = chromium.new_page()
        page.set_default_timeout(TIMEOUT)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(service.url)
        page.locator("#limits-table tbody tr").first.wait_for()
        cells = page.locator("#limits-table tbody tr").first.locator("td").all_inner_texts()
        assert cells == ["daily", "spent_day", "100", "1"]
        assert "1 events accepted here, 3 of 3 shards owned" in page.inner_text("#limits-facts")
        page.click("#refused summary")
        refused = page.locator("#refused-table tbody tr td").all_inner_texts()
        assert refused[1:4] == [NAME, "daily", "110"]
        service.add({"user": NAME, "amount": 30})
        until(page, "document.querySelectorAll('#refused-table tbody tr').length === 2")
        assert not errors
        page.close()
