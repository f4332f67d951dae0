"""elmo serve: vectors over HTTP, and a page to explore them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from elmo.commands import options
from elmo.errors import MissingExtraError
from elmo.serve.settings import ServeSettings, read_api_key
from elmo.settings import read_settings

SettingOptions = options.settings_group(
    ServeSettings,
    *("compare", "host", "port", "workers", "layers", "index", "cache_mb", "log_level"),
    *("max_client_batch_size", "max_concurrent_requests", "max_batch_tokens"),
)


@dataclass(frozen=True)
class AccessOptions:
    """The tasks that are served, and who may call."""

    task: Annotated[
        list[Path] | None,
        typer.Option(help="A trained task model, or a folder of several; may be given several times."),
    ] = None
    api_key_file: Annotated[
        Path | None, typer.Option(help="A file with the API key. Default: the variable ELMO_API_KEY.")
    ] = None
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="A web origin whose pages may call; may be given several times.")
    ] = None
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name in Host headers besides localhost; may be given several times.")
    ] = None


@options.option_groups
def serve(
    settings: SettingOptions,  # type: ignore[valid-type]
    access: AccessOptions,
    model: options.ModelOptions,
    precision: options.Precision = "float32",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Another setting of docs/serve.md, such as header_seconds=5.")
    ] = None,
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

    options.set_threads(model.threads)
    chosen = ServeSettings(
        model=model.model,
        device=model.device,
        precision=precision,
        tasks=tuple(access.task or ()),
        api_key=read_api_key(access.api_key_file),
        cors_origins=tuple(access.cors_origin or ()),
        allowed_hosts=tuple(access.allowed_host or ()),
        **vars(settings),
    )
    run(read_settings(ServeSettings, overrides=overrides or (), base=chosen), announce=_announce)


def _announce(address: str) -> None:
    """Tell a person, who would have to find the address in the log, where the page is."""
    if sys.stderr.isatty():
        typer.echo(f"Open {address} in a browser. Ctrl-C stops the service.", err=True)
