"""The page's routes, which are open to all clients: senses, neighbours, maps, fill and tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from elmo.serve.answers import json_answer
from elmo.serve.explorer import Explorer
from elmo.serve.routes.access import DOCUMENTED, EngineOf, explorer_of, note, while_connected
from elmo.serve.schemas import FillBody, MapBody, NeighboursBody, SensesBody, TaskBody

_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"description": "No such model or task is served"}}
router = APIRouter(responses=DOCUMENTED | _UNKNOWN, tags=["Explore"])


async def _answer(request: Request, explorer: Explorer, work: Callable[[], Any]) -> Response:
    """Run the work on the thread for long work."""
    return json_answer(await while_connected(request, explorer.engine.batcher.call(work)))


@router.post("/senses")
async def senses(body: SensesBody, _: EngineOf, request: Request) -> Response:
    """Tokens, and the inner products of all pairs of them on all pairs of layers (base64 of little-endian float32)."""
    note(request, texts=len(body.texts))
    explorer = explorer_of(request, body.model)
    return await _answer(request, explorer, partial(explorer.senses, body.texts))


@router.post("/neighbours")
async def neighbours(body: NeighboursBody, _: EngineOf, request: Request) -> Response:
    """The most similar occurrences in the indexed corpus, and the most similar words without context."""
    explorer = explorer_of(request, body.model)
    work = partial(explorer.neighbours, body.inputs, body.position, number=body.number)
    return await _answer(request, explorer, work)


@router.post("/map")
async def word_map(body: MapBody, _: EngineOf, request: Request) -> Response:
    """A word's occurrences in two dimensions, on each layer above the token layer, with clusters."""
    explorer = explorer_of(request, body.model)
    work = partial(explorer.map, body.word, body.inputs, own=body.own, clusters=body.clusters, limit=body.limit)
    return await _answer(request, explorer, work)


@router.post("/fill")
async def fill(body: FillBody, _: EngineOf, request: Request) -> Response:
    """The words that the forward, the backward and the joint model expect at a token's position."""
    explorer = explorer_of(request, body.model)
    return await _answer(request, explorer, partial(explorer.fill, body.inputs, body.position, number=body.number))


@router.get("/tasks")
async def tasks(_: EngineOf, request: Request) -> list[dict[str, Any]]:
    """The tasks of the served models, and the form of their input."""
    return explorer_of(request).tasks()


@router.post("/tasks/{name}")
async def predict(name: str, body: TaskBody, _: EngineOf, request: Request) -> Response:
    """The predictions of the task's model: an object for each sentence, pair or document."""
    explorer = explorer_of(request)
    return await _answer(request, explorer, partial(explorer.predict, name, body.inputs))
