"""Phones, dark colours, accessibility, long words, other scripts, the docs."""

from __future__ import annotations

from typing import Any

import pytest

from serve.conftest import Server
from serve.page.actions import direction, link, open_panel, picture, set_theme

pytestmark = pytest.mark.slow


def test_everything_has_a_name_for_screen_readers(page: Any, server: Server) -> None:
    for name in ("senses", "neighbours", "map", "fill", "tasks"):
        open_panel(page, server, name)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, textarea")].filter((each) =>
                 each.offsetParent && !each.labels?.length && !each.textContent.trim() && !each.ariaLabel).length"""
        )
        assert nameless == 0


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_problems(
    browser: Any, server: Server, pair: Server, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    # The page's own policy forbids scripts that are not its own.
    context = browser.new_context(
        bypass_csp=True, color_scheme=scheme, reduced_motion="reduce", viewport={"width": width, "height": 844}
    )
    page = context.new_page()
    panels = [(server, name) for name in ("senses", "neighbours", "map", "fill", "tasks")]
    for target, name in [*panels, (pair, "senses"), (pair, "fill")]:
        open_panel(page, target, name)
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        found = axe.run(page)["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], name
    context.close()


def test_a_phone_shows_the_result_and_has_large_touch_targets(page: Any, server: Server) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for name in ("senses", "neighbours", "map", "fill", "tasks"):
        panel = open_panel(page, server, name)
        assert panel.locator(".result > *").first.bounding_box()["y"] < 844 - 200, name
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, a:not(.skip), summary, input, select, textarea")]
               .filter((each) => {
                 const { width, height } = each.getBoundingClientRect();
                 return each.checkVisibility() && Math.min(width, height) < 24;
               }).map((each) => each.outerHTML)"""
        )
        assert small == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_dark_and_narrow(page: Any, server: Server) -> None:
    page.emulate_media(color_scheme="dark")
    open_panel(page, server, "senses")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    picture(page, "senses-dark")
    set_theme(page, "light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    set_theme(page, "auto")
    page.set_viewport_size({"width": 390, "height": 800})
    open_panel(page, server, "map")
    page.locator("#map svg.plane").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "map-narrow-dark")


def test_long_words_stay_on_a_narrow_page(page: Any, server: Server) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    for name in ("senses", "neighbours", "fill"):
        page.goto(link(server, name, text="See " + 200 * "a", position=1, word=1))
        page.locator(f"#{name} .result > div").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture(page, f"long-{name}")


def test_right_to_left(page: Any, server: Server) -> None:
    for name in ("senses", "neighbours"):
        page.goto(link(server, name, text="הוא ישב על גדת הנהר", position=3, word=3))
        page.locator(f"#{name} .result > div").first.wait_for()
        picture(page, f"hebrew-{name}")
        assert direction(page.locator(f"#{name} [name=text]")) == "rtl"
    assert direction(page.locator("#neighbours .words")) == "rtl"
    assert direction(page.locator("#senses .line")) == direction(page.locator("#senses table.heat")) == "rtl"


def test_docs(page: Any, server: Server) -> None:
    page.goto(server.url + "/docs")
    page.get_by_text("/embed_layers").first.wait_for()
    picture(page, "docs")
    open_panel(page, server, "senses")
    set_theme(page, "dark")
    page.route("**/openapi.json", lambda route: route.fulfill(status=502, body="<html>"))
    page.goto(server.url + "/docs")
    assert page.get_by_role("alert").inner_text() == "The server answered 502."
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
