"""The keyboard, the focus, Back."""

from __future__ import annotations

from typing import Any

import pytest

from serve.conftest import Server
from serve.page.actions import open_panel

pytestmark = pytest.mark.slow


def test_keyboard_alone(page: Any, server: Server) -> None:
    open_panel(page, server, "senses")
    page.locator("#tab-senses").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-neighbours"
    assert page.locator("#neighbours").is_visible() and page.locator("#senses").is_hidden()
    page.keyboard.press("End")
    assert page.locator("#tab-tasks").get_attribute("aria-selected") == "true"
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "left"


def test_back_returns_to_what_was_shown(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "senses")
    panel.locator(".gallery").get_by_role("button", name="bear").click()
    panel.locator(".summary", has_text="“bear”").wait_for()
    panel.locator(".line button", has_text="honey").click()
    page.locator("#tab-fill").click()
    page.locator("#fill ol.bars").first.wait_for()
    page.go_back()
    panel.locator(".summary", has_text="“honey”").wait_for()
    page.go_back()
    panel.locator(".summary", has_text="“left”").wait_for()
    assert panel.locator("textarea").input_value().startswith("She left")
    page.go_forward()
    panel.locator(".summary", has_text="“honey”").wait_for()
    panel.locator("textarea").fill("One bank\n\nTwo bank")
    panel.get_by_role("button", name="Compare").click()
    panel.locator(".line button", has_text="Two").wait_for()
    page.go_back()
    panel.locator(".summary", has_text="“honey”").wait_for()


def test_the_focus_stays(page: Any, server: Server) -> None:
    for name in ("neighbours", "fill"):
        panel = open_panel(page, server, name)
        panel.locator("ol.bars").nth(1).wait_for()
        panel.locator(".words button").nth(1).focus()
        page.keyboard.press("Enter")
        panel.locator(".words button:nth-child(2)[aria-pressed=true]").wait_for()
        panel.locator("ol.bars").nth(1).wait_for()
        assert panel.locator(".words button").nth(1).evaluate("button => button === document.activeElement")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    address = page.url
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "fill"
    assert page.url == address
    page.evaluate("location.hash = 'panels'")
    page.wait_for_timeout(300)
    assert asked == []
