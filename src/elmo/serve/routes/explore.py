"""The page's routes, which are open to all clients: senses, neighbours, maps, fill and tasks."""

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
    """Tokens, and the inner products of all pairs of them on all pairs of layers (base64 of little-endian float32)."""
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    if not texts:
        raise ServiceError(400, "`inputs` is empty; expected at least one text.")
    note(request, texts=len(texts))
    work = explorer.engine.batcher.call(partial(explorer.senses, texts))
    return json_answer(await while_connected(request, work))


@router.post("/neighbours")
async def neighbours(body: NeighboursBody, explorer: ExplorerOf, request: Request) -> Response:
    """The most similar occurrences in the indexed corpus, and the most similar words without context."""
    work = explorer.engine.batcher.call(partial(explorer.neighbours, body.inputs, body.position, number=body.number))
    return json_answer(await while_connected(request, work))


@router.post("/map")
async def word_map(body: MapBody, explorer: ExplorerOf, request: Request) -> Response:
    """A word's occurrences in two dimensions, on each layer above the token layer, with clusters."""
    work = explorer.engine.batcher.call(
        partial(explorer.map, body.word, body.inputs, own=body.own, clusters=body.clusters, limit=body.limit)
    )
    return json_answer(await while_connected(request, work))


@router.post("/fill")
async def fill(body: FillBody, explorer: ExplorerOf, request: Request) -> Response:
    """The words that the forward, the backward and the joint model expect at a token's position."""
    work = explorer.engine.batcher.call(partial(explorer.fill, body.inputs, body.position, number=body.number))
    return json_answer(await while_connected(request, work))


@router.get("/tasks")
async def tasks(explorer: ExplorerOf) -> list[dict[str, Any]]:
    """The tasks of the served models, and the form of their input."""
    return explorer.tasks()


@router.post("/tasks/{name}", responses={404: {"description": "No model for that task is served"}})
async def predict(name: str, body: TaskBody, explorer: ExplorerOf, request: Request) -> Response:
    """The predictions of the task's model: an object for each sentence, pair or document."""
    work = explorer.engine.batcher.call(partial(explorer.predict, name, body.inputs))
    return json_answer(await while_connected(request, work))
