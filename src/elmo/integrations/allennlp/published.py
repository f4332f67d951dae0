"""The published models by the web addresses that old code names."""

from __future__ import annotations

from elmo.checkpoints.published import catalogue

_BUCKET, _OLD_BUCKET = "https://allennlp.s3.amazonaws.com/", "https://s3-us-west-2.amazonaws.com/allennlp/"
_MODEL = f"{_BUCKET}models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway"
DEFAULT_OPTIONS_FILE = f"{_MODEL}_options.json"
DEFAULT_WEIGHT_FILE = f"{_MODEL}_weights.hdf5"
DEFAULT_BATCH_SIZE = 64


def published_name(*addresses: object) -> str | None:
    """The catalogue's name of the model with these options and weights, so that it is downloaded once for all uses."""
    given = tuple(str(address).replace(_OLD_BUCKET, _BUCKET) for address in addresses)
    return next((name for name, model in catalogue().items() if model.addresses == given), None)
