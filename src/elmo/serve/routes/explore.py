"""What the page asks, open to everyone: senses, neighbours, maps, fills and tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from elmo.serve.answers import json_answer
from elmo.serve.errors import ServiceError
from elmo.serve.routes.access import DOCUMENTED, ExplorerOf, note, while_connected
from elmo.serve.schemas import FillBody, MapBody, NeighboursBody, SensesBody, TaskBody

router = APIRouter(responses=DOCUMENTED, tags=["Explore"])


@router.post("/senses")
async def senses(body: SensesBody, explorer: ExplorerOf, request: Request) -> Response:
    """Tokens, and the inner products of every two of them on every two layers (base64 of little-endian float32)."""
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    if not texts:
        raise ServiceError(400, "`inputs` is empty; expected at least one text.")
    note(request, texts=len(texts))
    work = explorer.engine.batcher.call(partial(explorer.senses, texts))
    return json_answer(await while_connected(request, work))


@router.post("/neighbours")
async def neighbours(body: NeighboursBody, explorer: ExplorerOf, request: Request) -> Response:
    """The occurrences in the indexed corpus that are most like this one, and the words most like it out of context."""
    work = explorer.engine.batcher.call(partial(explorer.neighbours, body.inputs, body.position, number=body.number))
    return json_answer(await while_connected(request, work))


@router.post("/map")
async def word_map(body: MapBody, explorer: ExplorerOf, request: Request) -> Response:
    """A word's occurrences in two dimensions on each layer above the tokens, in clusters."""
    work = explorer.engine.batcher.call(
        partial(explorer.map, body.word, body.inputs, clusters=body.clusters, limit=body.limit)
    )
    return json_answer(await while_connected(request, work))


@router.post("/fill")
async def fill(body: FillBody, explorer: ExplorerOf, request: Request) -> Response:
    """What the forward, the backward and the joint model expect in a token's place."""
    work = explorer.engine.batcher.call(partial(explorer.fill, body.inputs, body.position, number=body.number))
    return json_answer(await while_connected(request, work))


@router.get("/tasks")
async def tasks(explorer: ExplorerOf) -> list[dict[str, Any]]:
    """The tasks that models are served for, and the form of their input."""
    return explorer.tasks()


@router.post("/tasks/{name}", responses={404: {"description": "No model for that task is served"}})
async def predict(name: str, body: TaskBody, explorer: ExplorerOf, request: Request) -> Response:
    """What the task's model says: an object for each sentence, pair or document."""
    work = explorer.engine.batcher.call(partial(explorer.predict, name, body.inputs))
    return json_answer(await while_connected(request, work))
