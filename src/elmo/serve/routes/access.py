"""How a route reaches the engine, and gives up when its client has gone."""

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
    400: {"description": "Empty: no text, or nothing but blanks"},
    401: {"description": "The API key is missing or wrong"},
    413: {"description": "The body is too large"},
    415: {"description": "The body is not JSON"},
    422: {"description": "Validation: the body or a text is not as expected"},
    424: {"description": "Backend: the model failed"},
    429: {"description": "Overloaded: too much is waiting"},
    503: {"description": "Unhealthy: the model is not warm yet"},
}


def _engine(request: Request) -> Engine:
    service = request.app.state.service
    if service.engine is None:
        raise ServiceError(503, service.failure or "The model is being opened; try again in a moment.")
    return service.engine


def _explorer(request: Request) -> Explorer:
    _engine(request)
    return request.app.state.service.explorer


EngineOf = Annotated[Engine, Depends(_engine)]
ExplorerOf = Annotated[Explorer, Depends(_explorer)]


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is given up if the client goes away first."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ServiceError(499, "The client went away.")
    finally:
        working.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def note(request: Request, **facts: Any) -> None:
    """Facts for the log's line: numbers and names, never text."""
    request.state.facts.update(facts)
