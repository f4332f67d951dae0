"""Arrays -> JSON. Large answers are streamed in pieces, so that the event loop runs between them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
from fastapi.responses import Response, StreamingResponse

_AT_ONCE = 200_000
"""Numbers that are written in a few milliseconds."""


def to_json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def json_answer(value: Any) -> Response:
    """Plain values and small arrays."""
    return Response(to_json(value), media_type="application/json")


def array_answer(arrays: Sequence[np.ndarray]) -> Response:
    """A list of arrays."""
    whole = [np.ascontiguousarray(array, dtype=np.float32) for array in arrays]
    return _answer(_list_pieces(whole), sum(array.size for array in whole))


def embeddings_answer(vectors: Sequence[np.ndarray], rest: dict[str, Any], *, in_base64: bool) -> Response:
    """OpenAI's list of embeddings; `rest` holds its other fields."""
    return _answer(_embedding_pieces(vectors, rest, in_base64), sum(vector.size for vector in vectors))


def as_base64(vector: np.ndarray) -> str:
    """Little-endian float32, as OpenAI's clients read it."""
    return base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode("ascii")


def _answer(pieces: Iterator[bytes], num_numbers: int) -> Response:
    if num_numbers <= _AT_ONCE:
        return Response(b"".join(pieces), media_type="application/json")
    return StreamingResponse(_in_turns(pieces), media_type="application/json")


async def _in_turns(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


def _embedding_pieces(vectors: Sequence[np.ndarray], rest: dict[str, Any], in_base64: bool) -> Iterator[bytes]:
    yield to_json(rest)[:-1] + b',"data":['
    for index, vector in enumerate(vectors):
        embedding = as_base64(vector) if in_base64 else np.ascontiguousarray(vector)
        yield b"," * bool(index) + to_json({"object": "embedding", "index": index, "embedding": embedding})
    yield b"]}"


def _list_pieces(arrays: Sequence[np.ndarray] | np.ndarray) -> Iterator[bytes]:
    for number, array in enumerate(arrays):
        yield b"," if number else b"["
        if array.ndim == 1 or array.size <= _AT_ONCE:
            yield to_json(array)
        else:
            yield from _list_pieces(array)
    yield b"]"
