"""Errors in the forms that clients of TEI and of OpenAI read.

A message names a field of the request in backticks, and never repeats more of a user's text than its position.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from elmo.errors import ElmoError

_TEI_TYPES = {
    400: "Empty",
    401: "Unauthorized",
    404: "NotFound",
    405: "MethodNotAllowed",
    424: "Backend",
    429: "Overloaded",
    503: "Unhealthy",
}
"""All others are "Validation"."""
_OPENAI_TYPES = {424: "server_error", 429: "rate_limit_error", 503: "server_error"}
"""All others are "invalid_request_error"."""
_OPENAI_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_OPENAI_PATHS = ("/v1/", "/embeddings", "/models")

_NAMED_FIELD = re.compile(r"`([a-z_]+)[a-z_.0-9]*`")
# Not the names of types and models that pydantic puts among those of the fields.
_FIELD = re.compile(r"(?!(?:int|float|str|bool|list|dict)$)[a-z_]+")


class ServiceError(Exception):
    """An answer that is not a result."""

    def __init__(self, status: int, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


def check_limit(number: int, most: int, found: str, advice: str = "") -> None:
    """Refuse a request in which a number is above its limit; `found` names the number."""
    if number > most:
        raise ServiceError(422, f"{found}; the most is {most}. {advice}".strip())


def error_body(path: str, status: int, message: str, kind: str | None = None) -> dict[str, Any]:
    """The error in the form that the route's clients expect; `kind` is TEI's, if it is not the usual one."""
    if not path.startswith(_OPENAI_PATHS):
        return {"error": message, "error_type": kind or _TEI_TYPES.get(status, "Validation")}
    field = _NAMED_FIELD.search(message)
    param = field.group(1) if field else None
    code = _OPENAI_CODES.get(status) if status != 404 or param == "model" else None
    kind = _OPENAI_TYPES.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _answer(request: Request, status: int, message: str, kind: str | None = None) -> JSONResponse:
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return JSONResponse(error_body(request.url.path, status, message, kind), status, headers=headers)


def _describe(error: RequestValidationError) -> str:
    """Where the first problem is and what it is, without the value itself."""
    problems = error.errors()
    first = problems[0]
    if first["type"] == "json_invalid":
        return f"The body is not JSON: {first.get('ctx', {}).get('error', 'it cannot be parsed')}."
    # A union reports one problem for each of its members, and names the member; those of one field belong together.
    place = first["loc"][1:]
    where = ".".join(str(part) for part in place if isinstance(part, int) or _FIELD.fullmatch(part))
    texts = list(dict.fromkeys(str(problem["msg"]) for problem in problems if problem["loc"][1:2] == place[:1]))
    return f"`{where or 'body'}` is invalid: {'; or '.join(texts[:3])}."


def _unreadable(cause: BaseException | None) -> str:
    reasons = {RecursionError: "it is nested too deeply", UnicodeDecodeError: "it is not UTF-8"}
    reason = reasons.get(type(cause), "a number in it is too long")
    return f"The body cannot be read as JSON: {reason}."


def install(app: FastAPI) -> None:
    """Turn every exception into an answer."""

    @app.exception_handler(ServiceError)
    async def of_service(request: Request, error: ServiceError) -> JSONResponse:
        return _answer(request, error.status, error.message, error.kind)

    @app.exception_handler(RequestValidationError)
    async def of_schema(request: Request, error: RequestValidationError) -> JSONResponse:
        if isinstance(error.body, bytes):  # FastAPI parses only what is called JSON
            return _answer(request, 415, "The request has no header Content-Type: application/json. Add it.")
        return _answer(request, 422, _describe(error))

    @app.exception_handler(ElmoError)
    async def of_elmo(request: Request, error: ElmoError) -> JSONResponse:
        return _answer(request, 422, str(error).encode("utf-8", "replace").decode())

    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # FastAPI's, for a body that makes the parser itself fail
            return _answer(request, 422, _unreadable(error.__cause__))
        message = {404: "There is no such route; see /docs.", 405: "This route does not take that method; see /docs."}
        answer = _answer(request, error.status_code, message.get(error.status_code, str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def of_model(request: Request, error: Exception) -> JSONResponse:
        return _answer(request, 424, "The server failed at this request; its log says where.")
