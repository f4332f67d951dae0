"""Copying and downloading: curl, Python, links, JSON, pictures."""

from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from elmo.tasks.catalog import find_task
from serve.conftest import Server
from serve.page.actions import PREDICTION, copied, examples, link, open_panel

pytestmark = pytest.mark.slow

RECORD_PICTURES = """
    const { set } = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, "src");
    window.drawn = [];
    Object.defineProperty(HTMLImageElement.prototype, "src", { set(value) {
      window.drawn.push(decodeURIComponent(value)); set.call(this, value); } });
"""
NO_CLIPBOARD = """
    Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined });
    window.canCopy = true;
    Document.prototype.execCommand = () => window.canCopy;
"""


def test_copy_and_download_buttons(page: Any, server: Server) -> None:
    open_panel(page, server, "neighbours")
    page.locator("#neighbours ol.bars").first.wait_for()
    taken = {kind: copied(page, kind) for kind in ("curl", "python", "link")}
    answer = subprocess.run(taken["curl"], shell=True, capture_output=True, text=True, timeout=60)
    assert len(json.loads(answer.stdout)["neighbours"]) == 8
    program = subprocess.run([sys.executable, "-c", taken["python"]], capture_output=True, text=True, timeout=60)
    assert "neighbours" in program.stdout, program.stderr
    page.goto("about:blank")
    page.goto(taken["link"])
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


def test_saved_pictures_say_what_they_show(page: Any, server: Server) -> None:
    page.add_init_script(RECORD_PICTURES)
    for name, caption in (
        ("senses", "How similar the other words are to “left”: cosine, layers mixed as 0.00 : 0.50 : 0.50"),
        ("neighbours", "The uses most similar to “bank” in: The otter climbed up the bank of the stream ."),
        ("map", f"occurrences of “{examples('WORDS')[0]['word']}”: near points are used alike"),
        ("fill", "What the two language models expect instead of “War” in: World War II ended in 1945 ."),
    ):
        open_panel(page, server, name)
        page.locator("#model", has_text="Model small").wait_for(state="attached")
        with page.expect_download() as saved:
            page.locator("[data-take=png]").click()
        assert Path(saved.value.path()).stat().st_size > 5000
        drawn = page.evaluate("window.drawn.at(-1)")
        assert caption in drawn and f"Model small, drawn by elmo {name}" in drawn
        if folder := os.environ.get("ELMO_SCREENSHOTS"):
            saved.value.save_as(f"{folder}/caption-{name}.png")


def test_a_saved_picture_of_a_task_has_the_text_of_its_answer(page: Any, server: Server) -> None:
    page.add_init_script(RECORD_PICTURES)
    page.route("**/tasks", lambda route: route.fulfill(json=[find_task("sentiment").describe()]))
    page.route("**/tasks/sentiment", lambda route: route.fulfill(json=[PREDICTION]))
    page.goto(link(server, "tasks", task="sentiment", text="Fine"))
    page.locator("#tasks h2", has_text="good").wait_for()
    page.locator("#tasks textarea").fill("Something newer")
    with page.expect_download():
        page.locator("[data-take=png]").click()
    drawn = page.evaluate("window.drawn.at(-1)")
    assert "sentiment: Fine" in drawn and "newer" not in drawn


def test_copying_without_a_clipboard(page: Any, server: Server) -> None:
    page.add_init_script(NO_CLIPBOARD)
    open_panel(page, server, "senses")
    page.locator("[data-take=link]").focus()
    page.keyboard.press("Enter")
    page.locator("#status", has_text="Copied a link to this.").wait_for()
    assert page.evaluate("document.activeElement.dataset.take") == "link"
    page.evaluate("window.canCopy = false")
    page.keyboard.press("Enter")
    page.locator("#status", has_text="The browser does not let the page copy a link to this.").wait_for()


def test_the_copied_program_has_the_text_as_it_was_typed(page: Any, server: Server) -> None:
    text = 'The answer : true , or "x": false and: null .'
    panel = open_panel(page, server, "senses")
    panel.locator("[name=text]").first.fill(text)
    program = ast.parse(copied(page, "python"))
    strings = [node.value for node in ast.walk(program) if isinstance(node, ast.Constant)]
    assert text in strings


def test_a_link_cannot_write_into_what_is_copied(page: Any, server: Server) -> None:
    page.route("**/tasks", lambda route: route.fulfill(status=424, json={"error": "failed"}))
    task = "x'; touch /tmp/y; '\", exec(z), \""
    page.goto(link(server, "tasks", task=task, text="it's"))
    page.locator("#tasks").get_by_role("alert").wait_for()
    url = f"{server.url}/tasks/" + quote(task, safe="'()")
    curl = shlex.split(copied(page, "curl"))
    assert curl[:3] == ["curl", "-s", url] and curl[-2:] == ["-d", '{"inputs":"it\'s"}']
    program = ast.parse(copied(page, "python"))
    assert url in [node.value for node in ast.walk(program) if isinstance(node, ast.Constant)]
    page.route("**/tasks", lambda route: route.fulfill(json=[find_task("sentiment").describe()]))
    page.route("**/tasks/sentiment", lambda route: route.fulfill(json=[PREDICTION]))
    for _ in range(2):  # before and after the tasks are known
        page.goto(f"{server.url}/#panel=senses")
        page.goto(link(server, "tasks", task=task, text="it's"))
        page.locator("#tasks h2", has_text="good").wait_for()
        assert copied(page, "curl").startswith(f"curl -s '{server.url}/tasks/sentiment' ")


def test_damaged_links(page: Any, server: Server) -> None:
    links = [
        ("constructor", {}),
        ("senses", {"weights": None, "gamma": 1.5}),
        ("senses", {"weights": ["x", "x", "x"], "gamma": 1.5}),
        ("senses", {"word": -1, "gamma": 1.5}),
        ("fill", {"position": 1.5}),
        ("map", {"layer": 0.5}),
        ("map", {"layer": -1}),
    ]
    for name, state in links:
        page.goto("about:blank")
        page.goto(link(server, name, **state))
        page.locator("section:not([hidden]) .result > *").first.wait_for()
        assert page.get_by_role("alert").count() == 0, state
        if "gamma" in state:
            assert page.locator(".sliders output").last.inner_text() == "1.50"


@pytest.mark.parametrize("state", ["{", "null"])
def test_a_link_whose_state_cannot_be_read_shows_an_example_and_says_so(page: Any, server: Server, state: str) -> None:
    page.goto(link(server, "fill", text="we sat on the bank", position=1))
    page.locator("#fill:not([aria-busy]) .result > *").first.wait_for()
    page.goto(f"{server.url}/#panel=fill&state={quote(state)}")
    page.locator("#status", has_text="The link's state could not be read; an example is shown.").wait_for()
    page.locator("#fill:not([aria-busy]) .result > *").first.wait_for()
    assert page.locator("#status").inner_text() == "The link's state could not be read; an example is shown."
    assert page.locator("#fill [name=text]").input_value() == examples("FILLS")[0]["text"]
    page.locator("#fill").get_by_role("button", name="Read", exact=True).click()
    page.locator("#status", has_text="Done.").wait_for()
