"""The tasks by name. A task's code is imported when it is asked for."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from elmo.errors import ConfigError
from elmo.tasks.task import Task

TASKS = {
    "question_answering": "QuestionAnswering",
    "entailment": "Entailment",
    "semantic_roles": "SemanticRoles",
    "coreference": "Coreference",
    "named_entities": "NamedEntities",
    "sentiment": "Sentiment",
}
"""Name -> the class in elmo.tasks.NAME.task."""


def find_task(name: str) -> Task[Any, Any, Any]:
    """The task of that name."""
    known = name.replace("-", "_")
    if known not in TASKS:
        near = difflib.get_close_matches(known, TASKS, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"There are {', '.join(TASKS)}."
        raise ConfigError(f"There is no task {name!r}. {advice}")
    task: Task[Any, Any, Any] = getattr(import_module(f"elmo.tasks.{known}.task"), TASKS[known])()
    return task
