"""The app: one engine behind the routes of TEI, of OpenAI, and of the page.

    uvicorn.run(create_app(ServeSettings()))

The model is loaded in a thread; until it is ready, /health and every route that needs it answer 503.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from elmo import __version__
from elmo.serve import errors
from elmo.serve.engine import Engine, Models, open_models
from elmo.serve.explorer import Explorer
from elmo.serve.guard import Guard
from elmo.serve.metrics import Metrics
from elmo.serve.routes import explore, health, openai, tei
from elmo.serve.settings import ServeSettings

log = logging.getLogger("elmo.serve")


class Service:
    """The state that the routes share; `engine` is None until the model is ready."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.engine: Engine | None = None
        self.explorers: dict[str, Explorer] = {}
        """By the model's name; the first model comes first."""
        self.failure: str | None = None
        self.on_failure: Callable[[], None] = lambda: None
        """Called when the model cannot be loaded; stops the process that runs the app."""
        self.is_idle = True
        """False after a stop if a thread still runs."""

    def start(self, models: Models | None = None) -> None:
        """Load the models, unless they are given, and run a first batch."""
        models = models or open_models(self.settings)
        engine = Engine(models, self.settings, self.metrics)
        engine.warm_up()
        engines = [engine]

        def is_idle(seconds: float) -> bool:
            return all(each.batcher.is_idle(seconds) for each in engines)

        first = self.explorers[models.name] = Explorer(engine, is_idle=is_idle)
        first.start()
        if models.second is not None:
            # Its metrics are its own: those of the service are about the first model, which all other routes use.
            settings = replace(self.settings, index=None, layers="average")
            second = Engine(models.second, settings, Metrics())
            engines.append(second)
            self.explorers[models.second.name] = Explorer(second, corpus=first.corpus, is_idle=is_idle)
        self.engine = engine

    def stop(self) -> None:
        stopped = [explorer.engine.stop() for explorer in self.explorers.values()]
        for explorer in self.explorers.values():
            explorer.stop()
        self.is_idle = all(stopped)


def create_app(settings: ServeSettings, metrics: Metrics | None = None, models: Models | None = None) -> FastAPI:
    """The app; `models` that are loaded already are shared."""
    metrics = metrics or Metrics()
    service = Service(settings, metrics)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        starting = asyncio.create_task(_start(service, models))
        yield
        await starting
        await asyncio.to_thread(service.stop)
        log.info("stopped")

    app = FastAPI(
        title="elmo",
        version=__version__,
        description="Contextual word vectors from a biLM, by the routes of Hugging Face TEI and of OpenAI.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        **_no_telemetry(),
    )
    app.state.service = service
    errors.install(app)
    # Routes are tried in order: the busiest come first.
    for router in (openai.router, tei.router, health.router, explore.router):
        app.include_router(router)
    app.mount("/page", health.PageFiles(directory=health.PAGE), name="page")
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    if settings.cors_origins:
        # The layer added last is the outermost. Browsers send preflight requests without a key, and a page can read the
        # guard's errors only if they have CORS headers, too.
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    return app


async def _start(service: Service, models: Models | None) -> None:
    try:
        await asyncio.to_thread(service.start, models)
    except Exception as error:
        service.failure = f"The model could not be loaded: {error}"
        log.exception("the model could not be loaded")
        service.on_failure()
        return
    log.info("ready", extra={"facts": {"model": service.engine.models.name if service.engine else None}})


def _no_telemetry() -> dict[str, Any]:
    """Switch off the tracing of newer FastAPI releases: nothing but our log records requests."""
    import inspect

    known = "telemetry" in inspect.signature(FastAPI.__init__).parameters
    return {"telemetry": {"tracing": False, "metrics": False, "logs": False}} if known else {}
