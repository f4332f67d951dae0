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

from elmo.tasks.catalog import find_task
from serve.conftest import CHROMIUM, FLAGS, Server

pytestmark = pytest.mark.slow

playwright_api = pytest.importorskip("playwright.sync_api")


PREDICTION = {"tokens": ["Fine"], "label": "good", "probabilities": {"good": 0.9, "bad": 0.1}}


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


def set_theme(page: Any, theme: str) -> None:
    page.locator(".settings:not([open]) summary").click()
    page.locator("#theme").select_option(theme)
    page.locator(".settings summary").click()


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


def test_tasks_without_a_model_say_how_to_get_one(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "tasks")
    commands = "\n".join(panel.locator("pre").all_inner_texts()).splitlines()
    for train, serve in zip(commands[::2], commands[1::2], strict=True):
        _, _, _, task, *options = shlex.split(train)
        assert find_task(task) and options[::2] == ["--train", "--dev", "-o"]
        assert shlex.split(serve) == ["elmo", "serve", "--task", options[-1]]
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


def test_saved_pictures_say_what_they_show(page: Any, server: Server) -> None:
    page.add_init_script(
        """const { set } = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, "src");
           window.drawn = [];
           Object.defineProperty(HTMLImageElement.prototype, "src", { set(value) {
             window.drawn.push(decodeURIComponent(value)); set.call(this, value); } });"""
    )
    for name, caption in (
        ("senses", "How similar the other words are to “left”: cosine, layers mixed as 0.00 : 0.50 : 0.50"),
        ("neighbours", "The uses most similar to “bank” in: The otter climbed up the bank of the stream ."),
        ("map", "occurrences of “left”: near points are used alike"),
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


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, server: Server, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    # The page's own policy forbids scripts that are not its own.
    context = browser.new_context(
        bypass_csp=True, color_scheme=scheme, reduced_motion="reduce", viewport={"width": width, "height": 844}
    )
    page = context.new_page()
    for name in ("senses", "neighbours", "map", "fill", "tasks"):
        open_panel(page, server, name)
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        found = axe.run(page)["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], name
    context.close()


def test_a_phone_shows_the_result_and_has_targets_for_a_finger(page: Any, server: Server) -> None:
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
    set_theme(page, "light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    set_theme(page, "auto")
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
    set_theme(page, "dark")
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
    page.route("**/tasks", lambda route: route.fulfill(json=[find_task("question_answering").describe()]))
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
    page.route("**/tasks", lambda route: route.fulfill(json=[find_task("sentiment").describe()]))
    page.route("**/tasks/sentiment", lambda route: route.fulfill(json=[PREDICTION]))
    for _ in range(2):  # before and after the tasks are known
        page.goto(f"{server.url}/#panel=senses")
        page.goto(link(server, "tasks", task=task, text="it's"))
        page.locator("#tasks h2", has_text="good").wait_for()
        assert copied(page, "curl").startswith(f"curl -s '{server.url}/tasks/sentiment' ")


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
    assert direction(page.locator("#senses .line")) == direction(page.locator("#senses table.heat")) == "rtl"


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
    served = [find_task(name).describe() for name in ("sentiment", "named_entities")]
    page.route("**/tasks", lambda route: route.fulfill(json=served))
    page.route("**/tasks/*", lambda route: route.fulfill(json=[PREDICTION]))
    panel = open_panel(page, server, "tasks")
    text, task = panel.locator("textarea"), panel.locator("select")
    example = text.input_value()
    task.select_option("named_entities")
    assert text.input_value() not in ("", example)
    assert panel.locator(".result > *").count() == 0
    text.fill("Mine.")
    task.select_option("sentiment")
    assert text.input_value() == "Mine."


def test_more_words_than_buttons_are_made_for(page: Any, server: Server) -> None:
    page.goto(link(server, "neighbours", text=501 * "a "))
    alert = page.locator("#neighbours").get_by_role("alert")
    assert alert.inner_text() == "The sentence holds 501 words; the most here is 500. Shorten it."
    assert page.locator("#neighbours .words button").count() == 0
