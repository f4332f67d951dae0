"""The panel of tasks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from elmo.tasks.catalog import find_task
from serve.conftest import Server
from serve.page.actions import PREDICTION, open_panel, picture

pytestmark = pytest.mark.slow


def test_tasks_without_a_model_say_how_to_get_one(page: Any, server: Server) -> None:
    panel = open_panel(page, server, "tasks")
    files, train, serve = panel.locator("pre").all_inner_texts()
    data = [Path(file) for file in files.split()]
    assert {find_task(file.parent.name).name for file in data} == {"named_entities", "sentiment", "semantic_roles"}
    assert {file.stem for file in data} == {"train", "dev"} and {file.parts[0] for file in data} == {"data"}
    assert shlex.split(train) == ["elmo", "task", "train-all", "data", "-o", "tasks"]
    assert shlex.split(serve) == ["elmo", "serve", "--task", "tasks"]
    picture(page, "tasks-none")


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
