"""The panel of senses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from serve.conftest import Server
from serve.page.actions import link, open_panel, picture

pytestmark = pytest.mark.slow


def test_senses(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "senses")
    assert panel.locator(".line").count() == 4 and panel.locator(".line.apart").count() == 1
    rows = panel.locator("table.compare tbody tr")
    assert rows.count() == 4  # three layers and the mix
    assert rows.first.locator("td").all_inner_texts() == ["1.00", "1.00"]  # layer 0 does not see the sentence
    chosen = panel.locator(".line [aria-pressed=true]")
    assert chosen.inner_text().split() == ["left", "1.00"]
    same, other = rows.last.locator("td").all_inner_texts()
    assert panel.locator(".summary").inner_text() == f"“left”: same sense {same}, other sense {other}"
    picture(page, "senses-light")
    sliders = panel.locator(".sliders input[type=range]")
    sliders.nth(0).fill("1")
    for slider in sliders.all()[1:3]:
        slider.fill("0")
    assert rows.last.locator("td").all_inner_texts() == ["1.00", "1.00"]
    assert sliders.nth(3).is_hidden()  # gamma does not change a cosine
    panel.locator(".sliders select").select_option("product")
    first = panel.locator(".line small").first
    sliders.nth(3).fill("2")
    doubled = float(first.inner_text())
    sliders.nth(3).fill("1")
    assert doubled == pytest.approx(4 * float(first.inner_text()), abs=0.03)
    panel.get_by_text("Every layer in numbers").click()
    assert panel.locator("table.heat").count() == 4
    panel.locator(".line button", has_text="house").click()
    assert chosen.inner_text().startswith("house")
    page.reload()
    page.locator("#senses .result > *").first.wait_for()
    assert chosen.inner_text().startswith("house")  # the state is in the address


def test_the_gallery_and_own_sentences(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "senses")
    panel.locator(".gallery").get_by_role("button", name="bear").click()
    panel.locator(".summary", has_text="“bear”: same sense").wait_for()
    assert "honey" in panel.locator("textarea").input_value()
    assert panel.locator(".gallery [aria-pressed=true]").all_inner_texts() == ["bear"]
    for text, line in (
        ("The bank.\nA bank.\nMy old bank", "most alike in sentences [123] and [123] .*; least alike in sentences"),
        ("The bank.\nA bank.", "most alike in sentences 1 and 2 -?[0-9.]+$"),
        ("A river", "nearest is “A”"),
        ("river", "no other word to compare with"),
    ):
        page.goto("about:blank")
        page.goto(link(server, "senses", text=text, word=1))
        assert re.search(line, panel.locator(".summary").inner_text())
        assert panel.locator(".gallery [aria-pressed=true]").count() == 0


def test_two_models_side_by_side(page: Any, pair: Server) -> None:
    panel = open_panel(page, pair, "senses")
    assert [text.split("\n")[0] for text in panel.locator(".summary").all_inner_texts()] == ["small", "other"]
    tables = panel.locator("table.compare")
    assert [tables.nth(number).locator("tbody tr").count() for number in (0, 1)] == [4, 5]
    assert tables.nth(1).locator("tbody tr").first.locator("td").all_inner_texts() == ["1.00", "1.00"]
    panel.locator(".line button", has_text="house").click()
    assert all("“house”: nearest is" in text for text in panel.locator(".summary").all_inner_texts())
    picture(page, "senses-two-models")
