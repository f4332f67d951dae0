"""The panel of maps."""

from __future__ import annotations

import re
from typing import Any

import pytest

from serve.conftest import Server
from serve.page.actions import link, open_panel, picture

pytestmark = pytest.mark.slow


def test_map(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "map")
    points = panel.locator("svg.plane .point")
    assert points.count() == panel.locator(".sentences li").count() >= 8
    points.nth(1).hover()
    assert panel.locator(".tip mark").inner_text() == panel.locator("input[name=word]").input_value()
    assert panel.locator(".sentences .told").inner_text().strip() == panel.locator(".tip").inner_text()
    panel.locator("input[name=clusters]").fill("3")
    panel.get_by_role("button", name="Draw").click()
    panel.locator(".legend li").nth(2).wait_for()
    picture(page, "map")
    panel.locator("input[name=word]").fill("zebra")
    panel.get_by_role("button", name="Draw").click()
    assert re.search(r"0 times.* Try \w+", panel.get_by_role("alert").inner_text())


def test_points_are_one_tab_stop(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "map")
    assert panel.locator(".point[tabindex='0']").count() == 1
    panel.locator(".point[tabindex='0']").focus()
    told = {panel.locator(".tip").inner_text()}
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "End", "Home"):
        page.keyboard.press(key)
        assert panel.locator(".point:focus").count() == panel.locator(".point[tabindex='0']").count() == 1
        told.add(panel.locator(".tip").inner_text())
    assert len(told) > 2
    page.keyboard.press("Tab")
    assert panel.locator(".sentences").evaluate("list => list === document.activeElement")


def test_points_move_between_layers_and_stand_side_by_side(page: Any, server: Server) -> None:
    page.emulate_media(reduced_motion="no-preference")
    panel = open_panel(page, server, "map")
    first = panel.locator(".point").first
    before = first.evaluate("point => point.style.transform")
    panel.locator("select[name=layer]").select_option("0")
    # The same element moves, by a transition, instead of being drawn again.
    assert first.evaluate("point => point.getAnimations().length") == 1
    assert first.evaluate("point => point.style.transform") != before
    assert "layer 1" in panel.locator("svg.plane").get_attribute("aria-label")
    panel.locator("select[name=beside]").select_option("1")
    assert "layer 2" in panel.locator("svg.plane").nth(1).get_attribute("aria-label")
    panel.locator("svg.plane").nth(1).locator(".point").nth(2).hover()
    assert panel.locator(".point.told").count() == 2
    picture(page, "map-two-layers")
    page.reload()
    panel.locator("svg.plane").nth(1).wait_for()  # the state is in the address


def test_the_plane_beside_is_turned_with_the_first(page: Any, server: Server) -> None:
    def mirrored(route: Any) -> None:
        answer = route.fetch().json()
        first, second = answer["layers"][:2]
        second["points"] = [[-x, -y] for x, y in first["points"]]
        route.fulfill(json=answer)

    page.route("**/map", mirrored)
    page.goto(link(server, "map", word="bank", layer=1, beside=0))
    panel = page.locator("#map")
    panel.locator("svg.plane").nth(1).wait_for()
    for layer in ("1", "0"):
        panel.locator("select[name=layer]").select_option(layer)
        planes = [panel.locator("svg.plane").nth(place).locator(".point") for place in range(2)]
        first, beside = (points.evaluate_all("all => all.map((each) => each.style.transform)") for points in planes)
        assert first == beside


def test_own_sentences_on_the_map(page: Any, server: Server) -> None:
    page.goto(link(server, "map", word="bank"))
    panel = page.locator("#map")
    panel.locator(".point").first.wait_for()
    count = panel.locator(".point").count()
    panel.get_by_text("Add sentences of your own").click()
    panel.locator("textarea[name=own]").fill("My bank lost my money.\nThe bank of a brook")
    panel.get_by_role("button", name="Draw").click()
    panel.locator(".legend", has_text="yours (2)").wait_for()
    assert panel.locator(".point").count() == count + 2 and panel.locator(".point .ring").count() == 2
    assert panel.locator(".tip").inner_text() == "Yours: My bank lost my money ."
    picture(page, "map-own")


def test_the_sentence_is_beside_the_map_and_above_the_fold(page: Any, server: Server) -> None:
    for width, height in ((1280, 800), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        panel = open_panel(page, server, "map")
        for part in ("svg.plane", ".tip"):
            box = panel.locator(part).bounding_box()
            assert box["y"] + box["height"] <= height, (part, width)


def test_two_models_side_by_side(page: Any, pair: Server) -> None:
    panel = open_panel(page, pair, "map")
    panel.locator("select[name=beside]").select_option(label="layer 2 of other")
    planes = panel.locator("svg.plane")
    assert "on layer 2 of other" in planes.nth(1).get_attribute("aria-label")
    assert planes.nth(0).locator(".point").count() == planes.nth(1).locator(".point").count()
    picture(page, "map-two-models")
