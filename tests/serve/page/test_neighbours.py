"""The panel of neighbours."""

from __future__ import annotations

from typing import Any

import pytest

from serve.conftest import Server
from serve.page.actions import hold, link, open_panel, picture, wait_for_one

pytestmark = pytest.mark.slow


def test_neighbours(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "neighbours")
    panel.locator("ol.bars").nth(1).wait_for()
    assert panel.locator("ol.bars").nth(0).locator("li").count() == 8
    assert panel.locator("ol.bars").nth(0).locator("mark").count() == 8
    panel.locator("input[name=text]").fill("Tall grass grew along the muddy bank of the stream .")
    panel.get_by_role("button", name="Read").click()
    panel.locator(".words").get_by_role("button", name="muddy").wait_for()
    panel.locator(".words").get_by_role("button", name="bank").click()
    panel.locator("ol.bars li").first.get_by_text("bank").wait_for()
    picture(page, "neighbours")


def test_a_late_answer_is_dropped(page: Any, server: Server) -> None:
    held = hold(page, "/neighbours")
    page.goto(f"{server.url}/#panel=neighbours")
    late = wait_for_one(page, held)
    panel = page.locator("#neighbours")
    panel.locator("input[name=text]").fill("")
    panel.get_by_role("button", name="Read").click()
    panel.get_by_role("alert").wait_for()
    index = {"num_occurrences": 1, "num_sentences": 1, "layers": "top", "static": "mean"}
    late.fulfill(json={"neighbours": [], "static": [], "index": index})
    page.wait_for_timeout(300)
    assert panel.get_by_role("alert").is_visible()
    assert panel.get_attribute("aria-busy") is None and page.locator("#status").inner_text() == ""


def test_very_long_sentences_get_no_buttons(page: Any, server: Server) -> None:
    page.goto(link(server, "neighbours", text=501 * "a "))
    alert = page.locator("#neighbours").get_by_role("alert")
    assert alert.inner_text() == "The sentence holds 501 words; the most here is 500. Shorten it."
    assert page.locator("#neighbours .words button").count() == 0
