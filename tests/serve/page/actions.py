"""What the tests do with the page; pictures go to $ELMO_SCREENSHOTS if that is set."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from elmo.serve.routes.health import PAGE
from serve.conftest import Server

PREDICTION = {"tokens": ["Fine"], "label": "good", "probabilities": {"good": 0.9, "bad": 0.1}}


def examples(name: str) -> list[dict[str, object]]:
    """A list of the page's examples, which were chosen with the bundled model."""
    source = (PAGE / "examples.js").read_text(encoding="utf-8")
    found = re.search(rf"^export const {name} = (\[.*?^\]);", source, re.MULTILINE | re.DOTALL)
    assert found
    return json.loads(found[1])


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
