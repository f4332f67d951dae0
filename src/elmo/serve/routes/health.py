"""Health, model information, metrics, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles

from elmo import __version__
from elmo.serve.errors import error_body
from elmo.serve.metrics import OPEN_METRICS, PROMETHEUS_TEXT
from elmo.serve.routes.access import DOCUMENTED, EngineOf

router = APIRouter()

PAGE = Path(__file__).parent.parent / "page"

_UNHEALTHY: dict[int | str, dict[str, Any]] = {503: DOCUMENTED[503]}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/health", responses=_UNHEALTHY)
@router.get("/ping", responses=_UNHEALTHY)
async def health(request: Request) -> Response:
    """200 when the model is ready, 503 before."""
    service = request.app.state.service
    if service.engine is not None:
        return JSONResponse({"status": "ok"})
    message = service.failure or "The model is loading; try again in a moment."
    return JSONResponse(error_body("/", 503, message), 503, headers={"Retry-After": "1"})


@router.get("/", responses=_UNHEALTHY)
async def root(request: Request) -> Response:
    """The page for a browser, /health for a program."""
    if "text/html" not in request.headers.get("accept", ""):
        return await health(request)
    return page("index.html")


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    return page("docs.html")


def page(name: str) -> Response:
    return FileResponse(PAGE / name, headers=_PAGE_HEADERS)


class PageFiles(StaticFiles):
    """The page's files. Browsers check each time whether a file changed, since modules of two releases do not mix."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers.update(_PAGE_HEADERS)
        return response


@router.get("/info", responses={401: DOCUMENTED[401], **_UNHEALTHY})
async def info(engine: EngineOf) -> dict[str, Any]:
    """The model and the limits, with TEI's names."""
    settings, config = engine.settings, engine.bilm.config
    return {
        "model_id": engine.models.name,
        "compare": engine.models.second and engine.models.second.name,
        "model_sha": None,
        "served_model_name": engine.models.name,
        "model_dtype": settings.precision,
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_concurrent_requests": settings.max_concurrent_requests,
        "max_input_length": settings.max_input_length,
        "max_batch_tokens": settings.max_batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": settings.max_client_batch_size,
        "auto_truncate": False,
        "tokenization_workers": 1,
        "version": __version__,
        "layers": config.num_layers,
        "dimensions": config.output_dim,
        "default_layers": settings.layers,
        "tokenizer": config.tokenizer,
        "can_fill": engine.bilm.softmax is not None and engine.bilm.vocabulary is not None,
        "tasks": sorted(engine.models.tasks),
    }


@router.get("/metrics", response_class=PlainTextResponse, responses={401: DOCUMENTED[401]})
async def metrics(request: Request) -> PlainTextResponse:
    """Prometheus's text format, or OpenMetrics if the client accepts it."""
    open_metrics = "application/openmetrics-text" in request.headers.get("accept", "")
    text = request.app.state.service.metrics.text(open_metrics=open_metrics)
    return PlainTextResponse(text, media_type=OPEN_METRICS if open_metrics else PROMETHEUS_TEXT)
