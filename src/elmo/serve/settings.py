"""The settings of a service: the model, the limits, who may call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.errors import ConfigError
from elmo.settings import Settings, setting

API_KEY_VARIABLE = "ELMO_API_KEY"


@dataclass(frozen=True)
class ServeSettings(Settings):
    """Every setting of the service, with the names of Hugging Face TEI where it has one."""

    model: str | None = setting(None, "A path, a bundled name or a Hub name; none is the bundled model.")
    compare: str | None = setting(None, "A second model that the page shows beside the first.")
    device: str | None = setting(None, "The device that the models run on; none is a GPU if any, otherwise the CPU.")
    precision: str = setting("float32", "The weights in memory: float32, float16, bfloat16 or int8.")
    layers: str = setting("average", "The layers of routes that have no `layers` field.")
    index: Path | None = setting(None, "A neighbour index; none is a small one of the package's own sentences.")
    tasks: tuple[Path, ...] = setting((), "Trained task models, or folders of several.")
    cache_mb: int = setting(256, "Megabytes for cached word vectors, per worker; 0 caches nothing.", at_least=0)

    host: str = setting("127.0.0.1", "The address to listen on; 0.0.0.0 is every address of the machine.")
    port: int = setting(8080, "The port; 0 takes a free one.", at_least=0, at_most=65535)
    workers: int = setting(1, "Processes; they share the weights.", at_least=1)
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "The least severe level that is logged.")
    graceful_seconds: int = setting(30, "Seconds that requests have to finish when the service stops.", at_least=0)

    api_key: str | None = setting(None, "The key that every request must send.")
    cors_origins: tuple[str, ...] = setting((), "Web origins whose pages may call the service.")
    allowed_hosts: tuple[str, ...] = setting(
        (), "Names that a Host header may have besides localhost and IP addresses; * allows every name."
    )

    max_concurrent_requests: int = setting(512, "Requests at once, per worker; more are answered 429.", at_least=1)
    max_connections: int = setting(
        1024, "Open connections, per worker; at the limit the one that was idle longest is closed.", at_least=1
    )
    max_header_bytes: int = setting(16_384, "Bytes of a request's line and headers.", at_least=256)
    header_seconds: float = setting(10.0, "Seconds until a new connection has sent a request's headers.", above=0)
    body_seconds: float = setting(60.0, "Seconds until a request's body has arrived.", above=0)
    payload_limit: int = setting(2_000_000, "Bytes of a request's body.", at_least=1)

    max_client_batch_size: int = setting(2048, "Texts in one request; OpenAI's own limit is 2048.", at_least=1)
    max_batch_tokens: int = setting(4096, "Tokens that run through the model together.", at_least=1)
    max_queue_tokens: int = setting(
        262_144, "Tokens in the queue, per worker; a request that would exceed them is answered 429.", at_least=1
    )
    max_input_length: int = setting(4096, "Tokens of one text.", at_least=1)
    max_word_length: int = setting(5000, "Characters of one word; a model sees the first 50 bytes or so.", at_least=1)
    max_output_numbers: int = setting(16_000_000, "Numbers in one answer; this many are 200 MB of JSON.", at_least=1)


def read_api_key(file: Path | None) -> str | None:
    """The key from a file or from the environment; None if there is neither."""
    if file is None:
        key = os.environ.get(API_KEY_VARIABLE)
        if key is not None and not key.strip():
            raise ConfigError(f"{API_KEY_VARIABLE} is set but empty. Set it to a key, or unset it.")
        return None if key is None else _sendable(key.strip(), API_KEY_VARIABLE)
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the API key from {file}: {error}.") from error
    if not key:
        raise ConfigError(f"{file} is empty; expected the API key in it.")
    return _sendable(key, str(file))


def _sendable(key: str, source: str) -> str:
    """The key, if clients can send it: each encodes other characters in its own way, and a line end ends the header."""
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"The API key in {source} holds a character that is not printable ASCII, or more than one line; clients "
            "cannot send it. Choose another key."
        )
    return key
