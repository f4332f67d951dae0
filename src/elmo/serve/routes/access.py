"""How a route gets the engine, and stops work when its client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from elmo.serve.engine import Engine
from elmo.serve.errors import ServiceError
from elmo.serve.explorer import Explorer

T = TypeVar("T")

DOCUMENTED: dict[int | str, dict[str, Any]] = {
    400: {"description": "Empty: no text, or nothing but white space"},
    401: {"description": "The API key is missing or wrong"},
    413: {"description": "The body is too large"},
    415: {"description": "The body is not JSON"},
    422: {"description": "Validation: the body or a text is invalid"},
    424: {"description": "Backend: the model failed"},
    429: {"description": "Overloaded: the queue is full"},
    503: {"description": "Unhealthy: the model is loading"},
}


async def _engine(request: Request) -> Engine:
    service = request.app.state.service
    if service.engine is None:
        raise ServiceError(503, service.failure or "The model is loading; try again in a moment.")
    return service.engine


def explorer_of(request: Request, model: str | None = None) -> Explorer:
    """What answers the page's questions with a model; the first one if none is named."""
    explorers: dict[str, Explorer] = request.app.state.service.explorers
    if model is not None and model not in explorers:
        raise ServiceError(404, f"`model` is not served here; this server has {' and '.join(map(repr, explorers))}.")
    return explorers[model] if model is not None else next(iter(explorers.values()))


# FastAPI runs a dependency that is not `async` in a thread, which costs more than the dependency itself.
EngineOf = Annotated[Engine, Depends(_engine)]


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled if the client disconnects first."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ServiceError(499, "The client disconnected.")
    finally:
        working.cancel()
        leaving.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def note(request: Request, **facts: Any) -> None:
    """Add facts to the request's log line: numbers and names, never text."""
    request.state.facts.update(facts)
