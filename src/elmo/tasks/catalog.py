"""Finds the tasks: every folder here with a `task.py` is one. Its code is imported when the task is used."""

from __future__ import annotations

import difflib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import elmo.tasks
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.tasks.task import Task


def task_names() -> list[str]:
    """The names of all tasks, sorted."""
    folders = (folder for place in elmo.tasks.__path__ for folder in Path(place).iterdir())
    return sorted(folder.name for folder in folders if (folder / "task.py").is_file())


def find_task(name: str) -> Task[Any, Any, Any]:
    """The task of that name."""
    from elmo.tasks.task import Task

    names, wanted = task_names(), name.replace("-", "_")
    if wanted not in names:
        near = difflib.get_close_matches(wanted, names, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}."
        raise ConfigError(f"There is no task {name!r}. {advice}")
    module = import_module(f"elmo.tasks.{wanted}.task")
    defined = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Task)]
    (task,) = [value for value in defined if value.__module__ == module.__name__]
    found: Task[Any, Any, Any] = task()
    return found


def paper_tasks() -> list[Task[Any, Any, Any]]:
    """The tasks of the paper, in the order of its table 1."""
    tasks = [task for task in map(find_task, task_names()) if task.paper is not None]
    return sorted(tasks, key=lambda task: task.paper.number if task.paper else 0)
