"""OpenAI's embeddings."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from elmo.serve.answers import as_base64, json_answer
from elmo.serve.engine import Engine
from elmo.serve.errors import ServiceError
from elmo.serve.routes.access import DOCUMENTED, EngineOf, note, while_connected
from elmo.serve.schemas import OpenAIBody

ANY_MODEL = ("elmo", "tei", "default")
"""Names that stand for whatever is served; some clients must send one."""

router = APIRouter(responses={**DOCUMENTED, 404: {"description": "The model is not served here"}}, tags=["OpenAI"])


@router.post("/v1/embeddings")
@router.post("/embeddings")
async def embeddings(body: OpenAIBody, engine: EngineOf, request: Request) -> Response:
    """One vector of length 1 for each text; base64 holds little-endian float32."""
    served = engine.models.name
    # As the server's command line names it, and a Hub name without its owner.
    also = (engine.settings.model, served.rpartition("/")[2])
    if body.model not in (None, served, *also, *ANY_MODEL):
        raise ServiceError(404, f"There is no such model here; this server has {served!r}.")
    given = [body.input] if isinstance(body.input, str) else body.input
    texts = await engine.reading(given, partial(engine.tokens, given))
    num_tokens = sum(map(len, texts))
    note(request, texts=len(texts), tokens=num_tokens)
    vectors = await while_connected(request, engine.pooled(texts, normalize=True, dimensions=body.dimensions))
    in_base64 = body.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": as_base64(vector) if in_base64 else vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    return json_answer({"object": "list", "data": data, "model": served, "usage": usage})


@router.get("/v1/models")
async def models(engine: EngineOf) -> dict[str, Any]:
    """The one model."""
    return {"object": "list", "data": [_model(engine)]}


def _model(engine: Engine) -> dict[str, Any]:
    return {"id": engine.models.name, "object": "model", "created": 0, "owned_by": "elmo"}
