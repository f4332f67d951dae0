"""Answers that are late, wrong, refused or not ready."""

from __future__ import annotations

import re
from typing import Any

import pytest

from elmo.tasks.catalog import find_task
from serve.conftest import Server
from serve.page.actions import hold, link, open_panel, set_theme, wait_for_one

pytestmark = pytest.mark.slow


def test_what_is_typed_during_a_run_does_not_mix_with_its_answer(page: Any, server: Server) -> None:
    asked, read = hold(page, "/fill"), hold(page, "/tokenize")
    page.goto(link(server, "fill", text="The first one", position=2))
    tokens = wait_for_one(page, read)
    page.locator("#fill input[name=text]").fill("Another")
    tokens.continue_()
    assert wait_for_one(page, asked).request.post_data_json["inputs"] == "The first one"
    page.route("**/tasks", lambda route: route.fulfill(json=[find_task("question_answering").describe()]))
    answers = hold(page, "/tasks/question_answering")
    page.goto(link(server, "tasks", text="Who?\tAnn saw Rome."))
    late = wait_for_one(page, answers)
    page.locator("#tasks textarea").fill("Where?\tIn the dark.")
    late.fulfill(json=[{"id": "1", "answer": "Ann", "answer_start": 0}])
    assert page.locator("#tasks .result mark").inner_text() == "Ann"
    assert page.locator("#tasks .result h2").inner_text() == "Who?"


@pytest.mark.parametrize("name", ["fill", "neighbours"])
def test_what_is_typed_while_the_model_is_opened_is_asked(page: Any, server: Server, name: str) -> None:
    described, asked = hold(page, "/info"), hold(page, f"/{name}")
    page.goto(link(server, name, text="The first one", position=2))
    first = wait_for_one(page, described)
    page.locator(f"#{name} input[name=text]").fill("Another longer sentence")
    for each in (first, *described):  # the panel's, and that of the settings
        each.continue_()
    question = wait_for_one(page, asked)
    assert question.request.post_data_json["inputs"] == "Another longer sentence"
    shown = [text.strip("[]") for text in page.locator(f"#{name} .words button").all_inner_texts()]
    assert shown == ["Another", "longer", "sentence"]
    question.continue_()
    page.locator(f"#{name} ol.bars").first.wait_for()


def test_an_error_leaves_no_older_answer_behind(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "map")
    panel.locator("input[name=word]").fill("zebra")
    panel.get_by_role("button", name="Draw").click()
    panel.get_by_role("alert").wait_for()
    panel.locator("select[name=layer]").select_option("0")
    assert panel.get_by_role("alert").is_visible() and panel.locator("svg.plane").count() == 0
    for kind in ("json", "png"):
        page.locator(f"[data-take={kind}]").click()
        page.locator("#status", has_text="There is no answer to save.").wait_for()
        page.locator("#status").evaluate("status => { status.textContent = ''; }")
    panel = open_panel(page, server, "senses")
    panel.locator("textarea").fill("")
    panel.get_by_role("button", name="Compare").click()
    panel.get_by_role("alert").wait_for()
    assert panel.locator(".sliders").is_hidden()


def test_blocked_site_data(page: Any, server: Server) -> None:
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    open_panel(page, server, "senses")
    set_theme(page, "dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_server_that_is_not_ready_is_asked_again(page: Any, server: Server) -> None:
    asked: list[str] = []

    def not_at_once(route: Any) -> None:
        asked.append(route.request.url)
        if asked.count(route.request.url) > 1:
            route.continue_()
        else:
            route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "The model is being opened."})

    page.route(re.compile("/(info|senses)$"), not_at_once)
    page.goto(server.url)
    page.get_by_text("The model is being opened.").wait_for()
    page.locator("#senses .summary").wait_for()
    page.locator("#model", has_text="Model small").wait_for(state="attached")


def test_a_new_key_is_tried(page: Any, server: Server) -> None:
    def guarded(route: Any) -> None:
        if "authorization" in route.request.headers:
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": "The API key is missing."})

    page.route(re.compile("/(info|senses)$"), guarded)
    page.goto(server.url)
    alert = page.locator("#senses").get_by_role("alert")
    assert alert.inner_text() == "The API key is missing."
    assert page.locator("#key").is_visible()
    assert page.evaluate("document.activeElement.id") == "key"
    page.locator("#key").fill("ключ")
    page.keyboard.press("Enter")
    alert.get_by_text("The API key holds a character that cannot be sent").wait_for()
    page.locator("#key").fill("key")
    page.keyboard.press("Enter")
    page.locator("#senses .summary").wait_for()
    page.locator("#model", has_text="Model small").wait_for(state="attached")


def test_an_answer_that_is_not_json(page: Any, server: Server) -> None:
    page.route("**/senses", lambda route: route.fulfill(status=502, body="<html>Bad gateway</html>"))
    panel = open_panel(page, server, "senses")
    assert panel.get_by_role("alert").inner_text() == "The server answered 502."
