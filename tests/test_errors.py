"""The errors that users meet."""

import pickle

import pytest

from elmo.errors import CheckpointError, ConfigError, ElmoError, InputError, MissingExtraError


@pytest.mark.parametrize(
    "error",
    [
        InputError("bad text"),
        CheckpointError("bad file"),
        ConfigError("bad key"),
        MissingExtraError("pyarrow", "parquet"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_pickled(error: ElmoError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
