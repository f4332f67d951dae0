"""OpenAI's embeddings and models."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from elmo.serve.answers import embeddings_answer
from elmo.serve.engine import Engine
from elmo.serve.errors import ServiceError
from elmo.serve.routes.access import DOCUMENTED, EngineOf, note, while_connected
from elmo.serve.schemas import OpenAIBody

ANY_MODEL = ("elmo", "tei", "default")
"""Names for whatever is served; some clients must send one."""

router = APIRouter(responses={**DOCUMENTED, 404: {"description": "The model is not served here"}}, tags=["OpenAI"])


@router.post("/v1/embeddings")
@router.post("/embeddings")
async def embeddings(body: OpenAIBody, engine: EngineOf, request: Request) -> Response:
    """One vector of length 1 for each text; base64 holds little-endian float32."""
    _check_model(body.model, engine)
    texts = await engine.reading(body.texts, partial(engine.tokens, body.texts, field="input"))
    num_tokens = sum(map(len, texts))
    note(request, texts=len(texts), tokens=num_tokens)
    vectors = await while_connected(request, engine.pooled(texts, normalize=True, dimensions=body.dimensions))
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    rest = {"object": "list", "model": engine.models.name, "usage": usage}
    return embeddings_answer(vectors, rest, in_base64=body.encoding_format == "base64")


@router.get("/v1/models")
@router.get("/models")
async def models(engine: EngineOf) -> dict[str, Any]:
    """The one model."""
    return {"object": "list", "data": [_model(engine)]}


@router.get("/v1/models/{name:path}")
@router.get("/models/{name:path}")
async def model(name: str, engine: EngineOf) -> dict[str, Any]:
    """The model, by any of its names."""
    _check_model(name, engine)
    return _model(engine)


def _check_model(name: str | None, engine: Engine) -> None:
    served = engine.models.name
    # Also the name that the server was started with, and a Hub name without its owner.
    if name not in (None, served, engine.settings.model, served.rpartition("/")[2], *ANY_MODEL):
        raise ServiceError(404, f"`model` is not served here; this server has {served!r}.")


def _model(engine: Engine) -> dict[str, Any]:
    return {"id": engine.models.name, "object": "model", "created": 0, "owned_by": "elmo"}
