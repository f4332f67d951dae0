"""What a service is started with: the model, the limits, who may ask."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import ConfigError

API_KEY_VARIABLE = "ELMO_API_KEY"


@dataclass(frozen=True)
class ServeSettings:
    """Every setting of the service, with Hugging Face TEI's names where it has one."""

    model: str | None = None
    """A folder, file, bundled or Hub name; None for the bundled one."""
    precision: str = "float32"
    """How the LSTMs' weights are kept: float32, float16 or int8."""
    layers: str = "average"
    """What the routes without a `layers` field give."""
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    max_concurrent_requests: int = 512
    """Requests in work or waiting, for each worker; one more is answered 429 at once."""
    max_batch_tokens: int = 4096
    """Tokens that run together."""
    max_queue_tokens: int = 262_144
    """Tokens waiting, for each worker; a request that would exceed them is answered 429 at once."""
    max_client_batch_size: int = 32
    """Texts of one request."""
    max_input_length: int = 4096
    """Tokens of one text."""
    max_word_length: int = 5000
    """Characters of one word; a model sees the first 50 bytes or so."""
    max_output_numbers: int = 16_000_000
    """Numbers of one answer: about 200 MB of JSON."""
    payload_limit: int = 2_000_000
    """Bytes of a request."""
    cache_mb: int = 256
    """Memory for the vectors of words."""
    api_key: str | None = None
    cors_origins: tuple[str, ...] = ()
    index: Path | None = None
    """An index of neighbours; None for a small one, which is built at the first question."""
    tasks: tuple[Path, ...] = ()
    """Trained task models."""
    graceful_seconds: int = 30

    def __post_init__(self) -> None:
        for name in (
            "workers", "max_concurrent_requests", "max_batch_tokens", "max_queue_tokens", "max_client_batch_size",
            "max_input_length", "max_word_length", "max_output_numbers", "payload_limit",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"The port is {self.port}; expected 0 to 65535 (0 takes a free one).")


def read_api_key(file: Path | None) -> str | None:
    """The key from a file or from the environment; None if there is neither."""
    if file is None:
        key = os.environ.get(API_KEY_VARIABLE)
        if key is not None and not key.strip():
            raise ConfigError(f"{API_KEY_VARIABLE} is set but empty. Set it to a key, or unset it.")
        return None if key is None else key.strip()
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the API key from {file}: {error}.") from error
    if not key:
        raise ConfigError(f"{file} is empty; expected the API key in it.")
    return key
