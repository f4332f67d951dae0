"""elmo serve: vectors over HTTP, and a page to look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmo.errors import MissingExtraError


def serve(
    model: Annotated[str | None, typer.Option("--model", "-m", help="A folder, file, bundled or Hub name.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="The port; 0 takes a free one.")] = 8080,
    workers: Annotated[int, typer.Option(help="Processes; they share the weights.")] = 1,
    precision: Annotated[str, typer.Option(help="How the weights are kept: float32, float16 or int8.")] = "float32",
    layers: Annotated[
        str, typer.Option(help="What the routes without a choice give: average, top, a layer, concat or weights.")
    ] = "average",
    index: Annotated[
        Path | None, typer.Option(help="An index of neighbours (elmo neighbours build); else a small one is made.")
    ] = None,
    task: Annotated[list[Path] | None, typer.Option(help="A trained task model; may be given several times.")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="A file with the API key; the variable ELMO_API_KEY does the same.")
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="A web origin whose pages may call; may be given several times.")
    ] = None,
    max_concurrent_requests: Annotated[int, typer.Option(help="More are answered 429.")] = 512,
    max_batch_tokens: Annotated[int, typer.Option(help="Tokens that run together.")] = 4096,
    max_client_batch_size: Annotated[int, typer.Option(help="Texts of one request.")] = 32,
    max_input_length: Annotated[int, typer.Option(help="Tokens of one text.")] = 4096,
    payload_limit: Annotated[int, typer.Option(help="Bytes of one request.")] = 2_000_000,
    cache_mb: Annotated[int, typer.Option(help="Memory for the vectors of words, for each worker.")] = 256,
    threads: Annotated[int, typer.Option(help="CPU threads of each worker; 0 leaves the choice to torch.")] = 0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve vectors to the clients of OpenAI and of Hugging Face, and a page to see words change meaning."""
    try:
        import fastapi
        import orjson
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(str(error.name), "serve") from None
    del fastapi, orjson, uvicorn
    from elmo.errors import ConfigError
    from elmo.serve.run import run
    from elmo.serve.settings import ServeSettings, read_api_key

    if log_level not in ("debug", "info", "warning", "error"):
        raise ConfigError(f"--log-level is {log_level!r}; expected debug, info, warning or error.")
    settings = ServeSettings(
        model=model,
        host=host,
        port=port,
        workers=workers,
        precision=precision,
        layers=layers,
        index=index,
        tasks=tuple(task or ()),
        api_key=read_api_key(api_key_file),
        cors_origins=tuple(cors_origin or ()),
        max_concurrent_requests=max_concurrent_requests,
        max_batch_tokens=max_batch_tokens,
        max_client_batch_size=max_client_batch_size,
        max_input_length=max_input_length,
        payload_limit=payload_limit,
        cache_mb=cache_mb,
    )
    if threads < 0:
        raise ConfigError(f"--threads is {threads}; expected 1 or more, or 0 for torch's choice.")
    if threads:
        import torch

        torch.set_num_threads(threads)
    run(settings, log_level=log_level)
