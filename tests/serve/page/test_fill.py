"""The panel of fills."""

from __future__ import annotations

from typing import Any

import pytest

from serve.conftest import Server
from serve.page.actions import direction, open_panel, picture

pytestmark = pytest.mark.slow


def test_fill(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "fill")
    assert panel.locator("ol.bars").count() == 3
    chosen = panel.locator(".words [aria-pressed=true]")
    assert chosen.inner_text() == "[War]"
    panel.locator(".words").get_by_role("button", name="1945").click()
    panel.locator(".words [aria-pressed=true]", has_text="[1945]").wait_for()
    panel.locator(".gallery").get_by_role("button", name="Nobel ___ in").click()
    panel.locator(".words [aria-pressed=true]", has_text="[Prize]").wait_for()
    picture(page, "fill")


def test_words_and_shares_of_fill(page: Any, server: Server) -> None:
    best = [{"word": "גדה", "percent": 99.7}]
    actual = {"forward": 99.7, "joint": 1.2e-7, "backward": None}
    answer = {"tokens": ["גדה"], "position": 0, "forward": best, "backward": best, "joint": best, "actual": actual}
    page.route("**/fill", lambda route: route.fulfill(json=answer))
    panel = open_panel(page, server, "fill")
    notes = ["“גדה”: 99.7%", "“גדה”: 0.00000012%", "“גדה” is not in the vocabulary."]
    assert panel.locator(".note").all_inner_texts() == notes
    assert direction(panel.locator("ol.bars span").first) == direction(panel.locator(".note bdi").first) == "rtl"


def test_the_model_is_chosen_where_there_are_two(page: Any, pair: Server, server: Server) -> None:
    for name in ("fill", "neighbours"):
        panel = open_panel(page, server, name)
        assert panel.locator("select[name=model]").is_hidden()
        panel = open_panel(page, pair, name)
        before = panel.locator("ol.bars").first.inner_text()
        panel.locator("select[name=model]").select_option("other")
        page.wait_for_url("**other**")
        page.locator(f"#{name}:not([aria-busy])").wait_for()
        assert panel.locator("ol.bars").first.inner_text() != before
        page.go_back()
        page.locator(f"#{name}:not([aria-busy])").wait_for()
        assert panel.locator("select[name=model]").input_value() == ""
        picture(page, f"{name}-two-models")
