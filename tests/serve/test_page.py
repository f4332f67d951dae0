"""Debian's Chromium through every panel of the real page; pictures go to $ELMO_SCREENSHOTS if that is set."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
    # A refusal by the service or a proxy is shown on the page; the browser reports it, too.
    assert [problem for problem in problems if not re.search("status of (4|502|503)", problem)] == []


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("ELMO_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def open_panel(page: Any, server: Server, name: str) -> Any:
    page.goto(f"{server.url}/#panel={name}")
    page.wait_for_url("**state=**")  # written when the panel starts to run
    page.locator(f"#{name}:not([aria-busy]) .result > *").first.wait_for()
    return page.locator(f"#{name}")


def link(server: Server, panel: str, **state: Any) -> str:
    return f"{server.url}/#panel={panel}&state={quote(json.dumps(state))}"


def copied(page: Any, kind: str) -> str:
    page.locator("#status").evaluate("status => { status.textContent = ''; }")
    page.locator(f"[data-take={kind}]").click()
    page.get_by_text("Copied").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def hold(page: Any, route: str) -> list[Any]:
    """The requests to a route, which wait until the test answers them."""
    held: list[Any] = []
    page.route(f"**{route}", lambda each: held.append(each))
    return held


def wait_for_one(page: Any, held: list[Any]) -> Any:
    for _ in range(600):
        if held:
            return held.pop(0)
        page.wait_for_timeout(50)
    raise AssertionError("nothing was asked")


def direction(locator: Any) -> str:
    return locator.evaluate("node => getComputedStyle(node).direction")


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
    taken = {kind: copied(page, kind) for kind in ("curl", "python", "link")}
    answer = subprocess.run(taken["curl"], shell=True, capture_output=True, text=True, timeout=60)
    assert len(json.loads(answer.stdout)["neighbours"]) == 8
    import sys

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


def test_the_copied_program_has_the_text_as_it_was_typed(page: Any, server: Server) -> None:
    text = 'The answer : true , or "x": false and: null .'
    panel = open_panel(page, server, "senses")
    panel.locator("[name=text]").first.fill(text)
    program = ast.parse(copied(page, "python"))
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
    open_panel(page, server, "senses")
    page.locator("#theme").select_option("dark")
    page.route("**/openapi.json", lambda route: route.fulfill(status=502, body="<html>"))
    page.goto(server.url + "/docs")
    assert page.get_by_role("alert").inner_text() == "The server answered 502."
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


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


def test_what_is_typed_during_a_run_does_not_mix_with_its_answer(page: Any, server: Server) -> None:
    asked, read = hold(page, "/fill"), hold(page, "/tokenize")
    page.goto(link(server, "fill", text="The first one", position=2))
    tokens = wait_for_one(page, read)
    page.locator("#fill input[name=text]").fill("Another")
    tokens.continue_()
    assert wait_for_one(page, asked).request.post_data_json["inputs"] == "The first one"
    page.route("**/tasks", lambda route: route.fulfill(json=[{"name": "question_answering", "input_format": "x"}]))
    answers = hold(page, "/tasks/question_answering")
    page.goto(link(server, "tasks", text="Who?\tAnn saw Rome."))
    late = wait_for_one(page, answers)
    page.locator("#tasks textarea").fill("Where?\tIn the dark.")
    late.fulfill(json=[{"id": "1", "answer": "Ann", "answer_start": 0}])
    assert page.locator("#tasks .result mark").inner_text() == "Ann"
    assert page.locator("#tasks .result h2").inner_text() == "Who?"


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
    page.route("**/tasks", lambda route: route.fulfill(json=[{"name": "sentiment", "input_format": "x"}]))
    page.route("**/tasks/sentiment", lambda route: route.fulfill(json=[{"other": 1}]))
    for _ in range(2):  # before and after the tasks are known
        page.goto(f"{server.url}/#panel=senses")
        page.goto(link(server, "tasks", task=task, text="it's"))
        page.locator("#tasks pre").wait_for()
        assert copied(page, "curl").startswith(f"curl -s '{server.url}/tasks/sentiment' ")


def test_blocked_site_data(page: Any, server: Server) -> None:
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    open_panel(page, server, "senses")
    page.locator("#theme").select_option("dark")
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
    page.locator("#senses table.heat").first.wait_for()
    page.locator("#model", has_text="Model small").wait_for()


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
    page.locator("#key").fill("ключ")
    page.keyboard.press("Enter")
    alert.get_by_text("The API key holds a character that cannot be sent").wait_for()
    page.locator("#key").fill("key")
    page.keyboard.press("Enter")
    page.locator("#senses table.heat").first.wait_for()
    page.locator("#model", has_text="Model small").wait_for()


def test_an_answer_that_is_not_json(page: Any, server: Server) -> None:
    page.route("**/senses", lambda route: route.fulfill(status=502, body="<html>Bad gateway</html>"))
    panel = open_panel(page, server, "senses")
    assert panel.get_by_role("alert").inner_text() == "The server answered 502."


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
    assert direction(page.locator("#senses table.heat")) == "rtl"


def test_words_and_shares_of_fill(page: Any, server: Server) -> None:
    best = [{"word": "גדה", "percent": 99.7}]
    actual = {"forward": 99.7, "joint": 1.2e-7, "backward": None}
    answer = {"tokens": ["גדה"], "position": 0, "forward": best, "backward": best, "joint": best, "actual": actual}
    page.route("**/fill", lambda route: route.fulfill(json=answer))
    panel = open_panel(page, server, "fill")
    notes = ["“גדה”: 99.7%", "“גדה”: 0.00000012%", "“גדה” is not in the vocabulary."]
    assert panel.locator(".note").all_inner_texts() == notes
    assert direction(panel.locator("ol.bars span").first) == direction(panel.locator(".note bdi").first) == "rtl"


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


def test_another_task_keeps_the_users_text(page: Any, server: Server) -> None:
    served = [{"name": name, "input_format": name} for name in ("named_entities", "sentiment")]
    page.route("**/tasks", lambda route: route.fulfill(json=served))
    page.route("**/tasks/*", lambda route: route.fulfill(json=[{"other": 1}]))
    panel = open_panel(page, server, "tasks")
    text, task = panel.locator("textarea"), panel.locator("select")
    example = text.input_value()
    task.select_option("sentiment")
    assert text.input_value() not in ("", example)
    assert panel.locator(".result > *").count() == 0
    text.fill("Mine.")
    task.select_option("named_entities")
    assert text.input_value() == "Mine."


def test_more_words_than_buttons_are_made_for(page: Any, server: Server) -> None:
    page.goto(link(server, "neighbours", text=501 * "a "))
    alert = page.locator("#neighbours").get_by_role("alert")
    assert alert.inner_text() == "The sentence holds 501 words; the most here is 500. Shorten it."
    assert page.locator("#neighbours .words button").count() == 0
