"""Debian's Chromium for the real page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from serve.conftest import CHROMIUM, FLAGS, Server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
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
            None if request.url.startswith(("http://127.0.0.1:", "data:", "blob:")) else problems.append(request.url)
        ),
    )
    yield page
    context.close()
    # A refusal by the service or a proxy is shown on the page; the browser reports it, too.
    assert [problem for problem in problems if not re.search("status of (4|502|503)", problem)] == []
