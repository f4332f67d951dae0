"""Debian's Chromium through every panel of the real page; pictures go to $ELMO_SCREENSHOTS if that is set."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.conftest import CHROMIUM, FLAGS, Server

pytestmark = pytest.mark.slow

playwright_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1100, "height": 900}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page = context.new_page()
    page.set_default_timeout(60_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((server.url, "data:", "blob:")) else problems.append(request.url)
        ),
    )
    yield page
    context.close()
    # A refusal by the service is shown on the page; the browser reports it, too.
    assert [problem for problem in problems if "status of 4" not in problem] == []


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("ELMO_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def open_panel(page: Any, server: Server, name: str) -> Any:
    page.goto(f"{server.url}/#panel={name}")
    panel = page.locator(f"#{name}")
    panel.wait_for()
    page.locator(f"#{name} .result > *").first.wait_for()
    return panel


def test_senses(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "senses")
    assert panel.locator("table.heat").count() == 3
    rows = panel.locator("table.heat").first.locator("tbody tr")
    assert rows.count() == 4  # three layers and the mix
    chosen = panel.locator("[aria-pressed=true]")
    assert chosen.inner_text() == "bank"
    column = 1 + 4
    assert rows.nth(3).locator("td").nth(column - 1).inner_text() == "1.00"
    picture(page, "senses-light")
    mix = rows.nth(3).locator("td").first
    before = mix.inner_text()
    for slider in panel.locator(".sliders input[type=range]").all()[1:3]:
        slider.fill("0")
    assert mix.inner_text() == rows.nth(0).locator("td").first.inner_text() != before
    panel.locator(".sliders select").select_option("product")
    panel.locator(".sliders input[type=range]").last.fill("2")
    doubled = float(rows.nth(3).locator("td").first.inner_text())
    panel.locator(".sliders input[type=range]").last.fill("1")
    single = float(rows.nth(3).locator("td").first.inner_text())
    assert doubled == pytest.approx(4 * single, abs=0.03)
    panel.get_by_role("button", name="river").first.click()
    assert panel.locator("[aria-pressed=true]").inner_text() == "river"
    page.reload()
    page.locator("#senses .result > *").first.wait_for()
    assert panel.locator("[aria-pressed=true]").inner_text() == "river"  # the state is in the address


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


def test_map(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "map")
    points = panel.locator("svg.plane .point")
    count = points.count()
    assert count >= 8
    points.first.focus()
    assert "bank" in panel.locator(".tip").inner_text().lower()
    points.nth(1).hover()
    assert panel.locator(".tip mark").inner_text().lower() == "bank"
    panel.locator("input[name=clusters]").fill("3")
    panel.get_by_role("button", name="Draw").click()
    panel.locator(".legend li").nth(2).wait_for()
    panel.locator("select[name=layer]").select_option("0")
    assert "layer 1" in panel.locator("svg.plane").get_attribute("aria-label")
    picture(page, "map")
    panel.locator("input[name=word]").fill("zebra")
    panel.get_by_role("button", name="Draw").click()
    assert "0 times" in panel.get_by_role("alert").inner_text()


def test_fill(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "fill")
    assert panel.locator("ol.bars").count() == 3
    assert panel.locator("[aria-pressed=true]").inner_text() == "[bank]"
    panel.locator(".words").get_by_role("button", name="river").click()
    panel.locator("[aria-pressed=true]", has_text="[river]").wait_for()
    picture(page, "fill")


def test_tasks_without_a_model_say_how_to_get_one(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "tasks")
    assert "elmo serve --task" in panel.locator(".result").inner_text()
    picture(page, "tasks-none")


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
    assert page.evaluate("document.activeElement.name") == "text"


def test_everything_has_a_name_for_screen_readers(page: Any, server: Server) -> None:
    for name in ("senses", "neighbours", "map", "fill", "tasks"):
        open_panel(page, server, name)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, textarea")].filter((each) =>
                 each.offsetParent && !each.labels?.length && !each.textContent.trim() && !each.ariaLabel).length"""
        )
        assert nameless == 0


def test_take_it_with_you(page: Any, server: Server) -> None:
    import subprocess

    open_panel(page, server, "neighbours")
    page.locator("#neighbours ol.bars").first.wait_for()
    copied = {}
    for kind in ("curl", "python", "link"):
        page.locator(f"[data-take={kind}]").click()
        page.get_by_text("Copied").wait_for()
        copied[kind] = page.evaluate("navigator.clipboard.readText()")
    answer = subprocess.run(copied["curl"], shell=True, capture_output=True, text=True, timeout=60)
    assert len(json.loads(answer.stdout)["neighbours"]) == 8
    import sys

    program = subprocess.run([sys.executable, "-c", copied["python"]], capture_output=True, text=True, timeout=60)
    assert "neighbours" in program.stdout, program.stderr
    page.goto("about:blank")
    page.goto(copied["link"])
    page.locator("#neighbours ol.bars").first.wait_for()
    with page.expect_download() as saved:
        page.locator("[data-take=json]").click()
    assert len(json.loads(Path(saved.value.path()).read_text())["neighbours"]) == 8
    for name in ("neighbours", "senses", "map"):
        open_panel(page, server, name)
        with page.expect_download() as saved:
            page.locator("[data-take=png]").click()
        content = Path(saved.value.path()).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) > 5000
        if folder := os.environ.get("ELMO_SCREENSHOTS"):
            (Path(folder) / f"download-{name}.png").write_bytes(content)


def test_the_copied_program_has_the_text_as_it_was_typed(page: Any, server: Server) -> None:
    text = 'The answer : true , or "x": false and: null .'
    panel = open_panel(page, server, "senses")
    panel.locator("[name=text]").first.fill(text)
    page.locator("[data-take=python]").click()
    page.get_by_text("Copied").wait_for()
    program = ast.parse(page.evaluate("navigator.clipboard.readText()"))
    strings = [node.value for node in ast.walk(program) if isinstance(node, ast.Constant)]
    assert text in strings


def test_dark_and_narrow(page: Any, server: Server) -> None:
    page.emulate_media(color_scheme="dark")
    open_panel(page, server, "senses")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    picture(page, "senses-dark")
    page.locator("#theme").select_option("light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.locator("#theme").select_option("auto")
    page.set_viewport_size({"width": 390, "height": 800})
    open_panel(page, server, "map")
    page.locator("#map svg.plane").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "map-narrow-dark")


def test_docs(page: Any, server: Server) -> None:
    page.goto(server.url + "/docs")
    page.get_by_text("/embed_layers").first.wait_for()
    picture(page, "docs")
