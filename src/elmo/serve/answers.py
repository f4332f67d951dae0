"""Arrays -> JSON, quickly; large answers in pieces, so that the event loop goes on between them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
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


def array_answer(arrays: Sequence[np.ndarray], headers: dict[str, str] | None = None) -> Response:
    """A list of arrays."""
    whole = [np.ascontiguousarray(array, dtype=np.float32) for array in arrays]
    if sum(array.size for array in whole) <= _AT_ONCE:
        return Response(to_json(whole), media_type="application/json", headers=headers)
    return StreamingResponse(_pieces(whole), media_type="application/json", headers=headers)


async def _pieces(arrays: Sequence[np.ndarray]) -> AsyncIterator[bytes]:
    for number, array in enumerate(arrays):
        yield b"," if number else b"["
        async for piece in _array_pieces(array):
            yield piece
    yield b"]"


async def _array_pieces(array: np.ndarray) -> AsyncIterator[bytes]:
    if array.ndim == 1 or array.size <= _AT_ONCE:
        yield to_json(array)
        await asyncio.sleep(0)
        return
    for number, part in enumerate(array):
        yield b"," if number else b"["
        async for piece in _array_pieces(part):
            yield piece
    yield b"]"


def as_base64(vector: np.ndarray) -> str:
    """Little-endian float32, as OpenAI's clients read it."""
    return base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode("ascii")
