"""The vectorizer works with scikit-learn's own tools."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, ElmoError, InputError
from elmo.integrations.sklearn import ElmoVectorizer

TEXTS = ["She sat on the river bank.", "He put the money into the bank.", "A short one.", "It fell; nobody knew why."]


def test_the_rows_are_the_embedders(bilm: PretrainedBiLM) -> None:
    for layers in ("average", "top", "concat", 0, [0.2, 0.3, 0.5]):
        for pooling in ("mean", "max"):
            expected = np.stack(Embedder(bilm, layers=layers, pooling=pooling).embed(TEXTS))
            rows = ElmoVectorizer(bilm, layers=layers, pooling=pooling).fit_transform(TEXTS)
            np.testing.assert_array_equal(rows, expected)


def test_texts_come_in_many_forms(bilm: PretrainedBiLM) -> None:
    vectorizer = ElmoVectorizer(bilm)
    rows = vectorizer.transform(TEXTS)
    np.testing.assert_array_equal(vectorizer.transform(np.array(TEXTS, dtype=object)), rows)
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(vectorizer.transform(pandas.Series(TEXTS)), rows)
    np.testing.assert_array_equal(
        vectorizer.transform([["A", "short", "one", "."]]), vectorizer.transform(["A short one."])
    )
    assert vectorizer.transform([]).shape == (0, rows.shape[1])
    assert not vectorizer.transform([""]).any()
    with pytest.raises(InputError, match="Give one column"):  # a frame's own iterator gives the names of its columns
        vectorizer.transform(pandas.DataFrame({"text": TEXTS}))
    weights = ElmoVectorizer(bilm, layers=np.full(bilm.config.num_layers, 1 / bilm.config.num_layers))
    np.testing.assert_allclose(
        weights.transform(TEXTS), ElmoVectorizer(bilm, layers="average").transform(TEXTS), atol=1e-6
    )
    assert ElmoVectorizer(bilm, dtype="float16").transform(TEXTS).dtype == np.float16


def test_a_model_that_was_replaced_on_disk_is_opened_again(folder: Path) -> None:
    before = ElmoVectorizer(folder).fit(TEXTS)
    rows = before.transform(TEXTS)
    changed = PretrainedBiLM.from_pretrained(folder)
    with torch.no_grad():
        changed.token_encoder.projection.bias.add_(1.0)
    changed.save_pretrained(folder)
    after = ElmoVectorizer(folder).fit_transform(TEXTS)
    np.testing.assert_array_equal(after, ElmoVectorizer(changed).fit_transform(TEXTS))
    np.testing.assert_array_equal(before.transform(TEXTS), rows)  # a fitted one has its model


def test_clone_parameters_and_pickle(folder: Path) -> None:
    vectorizer = ElmoVectorizer(folder, layers="top").fit(TEXTS)
    rows = vectorizer.transform(TEXTS)
    copy = clone(vectorizer)
    assert copy.get_params() == vectorizer.get_params()
    np.testing.assert_array_equal(copy.transform(TEXTS), rows)
    assert copy._fitted().model is vectorizer._fitted().model, "clones share one opened model"
    saved = pickle.dumps(vectorizer)
    assert len(saved) < 2000, "a named model is not written into the pickle"
    np.testing.assert_array_equal(pickle.loads(saved).transform(TEXTS), rows)
    # A changed setting takes effect, fitted or not.
    average = ElmoVectorizer(folder, layers="average").transform(TEXTS)
    np.testing.assert_array_equal(vectorizer.set_params(layers="average").transform(TEXTS), average)


def test_settings_that_failed_fail_again(bilm: PretrainedBiLM) -> None:
    vectorizer = ElmoVectorizer(bilm).fit(TEXTS).set_params(layers=7)
    for _ in range(2):
        with pytest.raises(ConfigError, match="There is no layer 7"):
            vectorizer.transform(TEXTS)


def test_layers_may_be_numpys(bilm: PretrainedBiLM) -> None:
    for given, plain in ((np.int64(1), 1), (list(np.array([0.5, 0.25, 0.25], np.float32)), [0.5, 0.25, 0.25])):
        rows = ElmoVectorizer(bilm, layers=given).transform(TEXTS)  # type: ignore[arg-type]
        np.testing.assert_array_equal(rows, ElmoVectorizer(bilm, layers=plain).transform(TEXTS))


def test_an_opened_model_is_pickled_whole(bilm: PretrainedBiLM) -> None:
    vectorizer = ElmoVectorizer(bilm)
    rows = vectorizer.transform(TEXTS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(vectorizer)).transform(TEXTS), rows)


def test_pandas_output(bilm: PretrainedBiLM) -> None:
    pytest.importorskip("pandas")
    frame = ElmoVectorizer(bilm).set_output(transform="pandas").fit_transform(TEXTS)
    assert list(frame.columns[:2]) == ["elmo0", "elmo1"] and frame.shape == (4, bilm.config.output_dim)


def test_pipeline_and_grid_search(folder: Path) -> None:
    texts = [f"the {word} bank is {adjective}" for word in ("river", "green") for adjective in ("wet", "cold", "long")]
    texts += [f"{who} paid {what} at noon" for who in ("Ann", "Bob") for what in ("cash", "rent", "tax")]
    labels = [0] * 6 + [1] * 6
    pipeline = make_pipeline(ElmoVectorizer(folder), LogisticRegression(C=100, max_iter=1000))
    search = GridSearchCV(
        pipeline, {"elmovectorizer__layers": ["top", 0, "concat"], "elmovectorizer__pooling": ["mean", "max"]}, cv=3
    ).fit(texts, labels)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_estimator_.score(texts, labels) == 1.0


def test_n_jobs_works_in_other_processes(folder: Path) -> None:
    from joblib import Parallel, delayed

    vectorizer = ElmoVectorizer(folder).fit()
    (rows,) = Parallel(n_jobs=2)([delayed(vectorizer.transform)(TEXTS)])
    np.testing.assert_array_equal(rows, vectorizer.transform(TEXTS))


@pytest.mark.parametrize(
    ("settings", "texts", "expected"),
    [
        ({"layers": "all"}, TEXTS, "concat"),
        ({"pooling": None}, TEXTS, "'mean' or 'max'"),
        ({"pooling": "sum"}, TEXTS, "Unknown pooling"),
        ({"layers": 7}, TEXTS, "There is no layer 7"),
        ({"layers": " ALL"}, TEXTS, "concat"),
        ({"layers": None}, TEXTS, "Unknown layers None"),
        ({}, np.array(TEXTS, dtype=object)[:, None], "not a table"),
        ({}, {"text": TEXTS}, "not a table"),
        ({}, "one text", "into a list"),
        ({}, ["a", None], "Sentence 1 is NoneType"),
        ({}, ["a", float("nan")], "Sentence 1 is float"),
    ],
)
def test_invalid_input_is_refused(bilm: PretrainedBiLM, settings: dict, texts: object, expected: str) -> None:
    with pytest.raises(ElmoError, match=expected) as caught:
        ElmoVectorizer(bilm, **settings).fit_transform(texts)
    assert isinstance(caught.value, ConfigError | InputError)


def test_without_scikit_learn(message_without: Callable[[str, str], str]) -> None:
    assert "pip install 'elmo-torch[sklearn]'" in message_without("sklearn", "elmo.integrations.sklearn")
