"""The JSON files of models: options, configs, cards. A bad one gets a sentence, whatever is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from elmo.errors import CheckpointError


def read_json_object(path: Path, *, expected: str) -> dict[str, Any]:
    """The object in a JSON file; `expected` ends the sentence "Expected ..." of an error."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x}). Expected {expected}."
        ) from error
    except OSError as error:
        raise CheckpointError(f"Cannot read {path} ({error.strerror}). Expected {expected}.") from error
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        found = "is empty" if not text.strip() else f"is not JSON ({error})"
        raise CheckpointError(f"{path} {found}. Expected {expected}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}, not an object. Expected {expected}.")
    return value
