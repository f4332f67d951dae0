"""The routes of Hugging Face's Text Embeddings Inference (TEI), and our own for layers."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from elmo.serve.answers import array_answer, json_answer
from elmo.serve.batching import Wanted
from elmo.serve.engine import Engine
from elmo.serve.errors import ServiceError
from elmo.serve.routes.access import DOCUMENTED, EngineOf, explorer_of, note, while_connected
from elmo.serve.schemas import EmbedAllBody, EmbedBody, EmbedLayersBody, SimilarityBody, TokenizeBody

router = APIRouter(responses=DOCUMENTED, tags=["TEI"])


def _answers(model: Any) -> dict[int | str, dict[str, Any]]:
    """Document an answer that is written without pydantic, which would be slow for vectors."""
    return {200: {"content": {"application/json": {"schema": model}}, "description": "The result"}}


def _lists(depth: int, of: str = "number") -> dict[str, Any]:
    return {"type": "array", "items": _lists(depth - 1, of)} if depth else {"type": of}


async def _prepare(
    engine: Engine, request: Request, body: EmbedBody | EmbedAllBody | EmbedLayersBody
) -> list[list[str]]:
    read = partial(engine.tokens, body.texts, truncate=bool(body.truncate), from_left=body.from_left)
    texts = await engine.reading(body.texts, read)
    note(request, texts=len(texts), tokens=sum(map(len, texts)))
    return texts


@router.post("/embed", responses=_answers(_lists(2)))
async def embed(body: EmbedBody, engine: EngineOf, request: Request) -> Response:
    """One vector for each text: the mean over its tokens, of length 1 unless `normalize` is false."""
    texts = await _prepare(engine, request, body)
    work = engine.pooled(texts, normalize=body.normalize is not False, dimensions=body.dimensions)
    return array_answer(await while_connected(request, work))


@router.post("/embed_all", responses=_answers(_lists(3)))
async def embed_all(body: EmbedAllBody, engine: EngineOf, request: Request) -> Response:
    """A vector for each token of each text."""
    texts = await _prepare(engine, request, body)
    return array_answer(await while_connected(request, engine.embed(texts, Wanted(engine.default))))


@router.post("/embed_layers", responses=_answers({"anyOf": [_lists(3), _lists(4)]}))
async def embed_layers(body: EmbedLayersBody, engine: EngineOf, request: Request) -> Response:
    """Token vectors of chosen layers: "all" (layer, token, dimension), an index, "average", or layer weights."""
    wanted = Wanted(engine.choose(body.layers))
    texts = await _prepare(engine, request, body)
    return array_answer(await while_connected(request, engine.embed(texts, wanted)))


@router.post("/tokenize", responses=_answers(_lists(2, of="object")))
async def tokenize(body: TokenizeBody, _: EngineOf, request: Request) -> Response:
    """The tokens with their positions. An id is the word's in the softmax vocabulary; 0 if the model has none."""
    engine = explorer_of(request, body.model).engine
    read = partial(_entries, engine, body.texts, body.add_special_tokens is not False)
    result = await engine.reading(body.texts, read)
    note(request, texts=len(result), tokens=sum(map(len, result)))
    return json_answer(result)


def _entries(engine: Engine, texts: list[str], add_special_tokens: bool) -> list[list[dict[str, Any]]]:
    vocabulary, config = engine.bilm.vocabulary, engine.bilm.config

    def entry(text: str, special: bool, start: int | None = None, stop: int | None = None) -> dict[str, Any]:
        number = 0 if vocabulary is None else vocabulary.id_of(text)
        return {"id": number, "text": text, "special": special, "start": start, "stop": stop}

    result = []
    for tokens in engine.spans(texts):
        entries = [entry(token.text, False, token.start, token.stop) for token in tokens]
        if add_special_tokens:
            entries = [entry(config.begin_sentence, True), *entries, entry(config.end_sentence, True)]
        result.append(entries)
    return result


@router.post("/similarity", responses=_answers(_lists(1)))
async def similarity(body: SimilarityBody, engine: EngineOf, request: Request) -> Response:
    """The cosine similarity of the source sentence to each of the others."""
    source, others = [body.inputs.source_sentence], body.inputs.sentences
    texts = await engine.reading(source + others, lambda: engine.tokens(source) + engine.tokens(others))
    note(request, texts=len(texts), tokens=sum(map(len, texts)))
    first, *rest = await while_connected(request, engine.pooled(texts, normalize=True, dimensions=None))
    return json_answer([float(first @ other) for other in rest])


@router.post("/", responses=_answers({"anyOf": [_lists(2), _lists(1)]}))
async def root(body: EmbedBody | SimilarityBody, engine: EngineOf, request: Request) -> Response:
    """/embed or /similarity: Hugging Face's client posts both to a bare address."""
    if isinstance(body, SimilarityBody):
        return await similarity(body, engine, request)
    return await embed(body, engine, request)


_UNAVAILABLE = {
    "/decode": (422, "This model reads characters; it has no token ids to decode.", "Tokenizer"),
    "/embed_sparse": (424, "Model is not an embedding model with SPLADE pooling", "Backend"),
    "/predict": (424, "Model is not a classifier model", "Backend"),
    "/rerank": (424, "Model is not a re-ranker model", "Backend"),
}
"""TEI's answers for a model that does not have these."""


@router.post("/decode", include_in_schema=False)
@router.post("/embed_sparse", include_in_schema=False)
@router.post("/predict", include_in_schema=False)
@router.post("/rerank", include_in_schema=False)
async def unavailable(request: Request) -> None:
    raise ServiceError(*_UNAVAILABLE[request.url.path])
