"""elmo serve: vectors over HTTP, and a page to explore them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmo.commands import options
from elmo.errors import MissingExtraError


def serve(
    model: options.Model = None,
    compare: Annotated[
        str | None, typer.Option(help="A second model that the page shows beside the first. Default: none.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="The port; 0 takes a free one.")] = 8080,
    workers: Annotated[int, typer.Option(help="Processes; they share the weights.")] = 1,
    precision: options.Precision = "float32",
    layers: Annotated[
        str, typer.Option(help="The layers of routes without that choice: average, top, concat, a layer or weights.")
    ] = "average",
    index: Annotated[
        Path | None, typer.Option(help="A neighbour index (elmo neighbours build). Default: a small one.")
    ] = None,
    task: Annotated[
        list[Path] | None,
        typer.Option(help="A trained task model, or a folder of several; may be given several times."),
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="A file with the API key. Default: the variable ELMO_API_KEY.")
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="A web origin whose pages may call; may be given several times.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name in Host headers besides localhost; may be given several times.")
    ] = None,
    max_client_batch_size: Annotated[int, typer.Option(help="Texts in one request.")] = 2048,
    max_concurrent_requests: Annotated[int, typer.Option(help="Requests at once, per worker.")] = 512,
    max_batch_tokens: Annotated[int, typer.Option(help="Tokens that run through the model together.")] = 4096,
    cache_mb: Annotated[int, typer.Option(help="Megabytes for cached word vectors, per worker.")] = 256,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Another setting of docs/serve.md, such as header_seconds=5.")
    ] = None,
    threads: options.Threads = 0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve vectors to OpenAI's and Hugging Face's clients, and a page that shows words change meaning."""
    try:
        import fastapi
        import httptools
        import orjson
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(str(error.name), "serve") from None
    del fastapi, httptools, orjson, uvicorn
    from elmo.serve.run import run
    from elmo.serve.settings import ServeSettings, read_api_key
    from elmo.settings import assignment, read_settings

    settings = ServeSettings(
        model=model,
        compare=compare,
        host=host,
        port=port,
        workers=workers,
        precision=precision,
        layers=layers,
        index=index,
        tasks=tuple(task or ()),
        api_key=read_api_key(api_key_file),
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=tuple(allowed_host or ()),
        max_client_batch_size=max_client_batch_size,
        max_concurrent_requests=max_concurrent_requests,
        max_batch_tokens=max_batch_tokens,
        cache_mb=cache_mb,
    )
    options.set_threads(threads)
    changes = [assignment("log_level", log_level), *(overrides or ())]
    run(read_settings(ServeSettings, overrides=changes, base=settings))
