"""`elmo.Tok2Vec.v1` in real spaCy pipelines: gradients, listeners, the cache, saving, and `spacy train` itself."""

import os
import pickle
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

spacy = pytest.importorskip("spacy")

from spacy.tokens import Doc, DocBin
from spacy.training import Example
from thinc.api import Adam, Model, fix_random_seed
from tiny_model import TINY

import elmo
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import CheckpointError, ConfigError, WriteError
from elmo.integrations.spacy import build_tok2vec
from elmo.integrations.spacy.layer_cache import LayerFile
from elmo.integrations.spacy.tok2vec import FrozenBiLM
from elmo.mix.scalar_mix import ScalarMix

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "examples" / "integrations" / "spacy_train.cfg"
WIDTH = 16
# words, tags, heads, dependencies, entities, category
CORPUS = [
    ("Ann sleeps .", "N V P", (1, 1, 1), "nsubj ROOT punct", "B-PER O O", "rest"),
    ("Bob sleeps .", "N V P", (1, 1, 1), "nsubj ROOT punct", "B-PER O O", "rest"),
    ("Dogs bark .", "N V P", (1, 1, 1), "nsubj ROOT punct", "O O O", "noise"),
    ("Loud dogs bark .", "A N V P", (1, 2, 2, 2), "amod nsubj ROOT punct", "O O O O", "noise"),
    ("Ann sees Rome .", "N V N P", (1, 1, 1, 1), "nsubj ROOT obj punct", "B-PER O B-LOC O", "rest"),
    ("Dogs see Bob .", "N V N P", (1, 1, 1, 1), "nsubj ROOT obj punct", "O O B-PER O", "noise"),
]


@pytest.fixture(autouse=True)
def seed() -> None:
    fix_random_seed(0)


def annotated(vocab: "spacy.Vocab") -> list[Doc]:
    docs = []
    for words, tags, heads, deps, ents, category in CORPUS:
        doc = Doc(vocab, words.split(), tags=tags.split(), heads=list(heads), deps=deps.split(), ents=ents.split())
        doc.cats = {"rest": float(category == "rest"), "noise": float(category == "noise")}
        docs.append(doc)
    return docs


def initialized(**settings: object) -> "tuple[Model, list[Doc]]":
    docs = [Doc(spacy.blank("en").vocab, words=row[0].split()) for row in CORPUS]
    return build_tok2vec(width=WIDTH, **{"model": TINY, **settings}).initialize(X=docs), docs  # type: ignore[arg-type]


def frozen_bilm(model: Model) -> FrozenBiLM:
    return next(shim for node in model.walk() for shim in node.shims)


def mix_of(model: Model) -> Model:
    return next(node for node in model.walk() if node.name == "elmo_mix")


def shared_pipeline(**settings: object) -> "spacy.Language":
    """A tagger and a recogniser of names that listen to one tok2vec, trained on nothing yet."""
    nlp = spacy.blank("en")
    architecture = {"@architectures": "elmo.Tok2Vec.v1", "width": WIDTH, "model": TINY, **settings}
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": WIDTH}
    nlp.add_pipe("tok2vec", config={"model": architecture})
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    parser = {"@architectures": "spacy.TransitionBasedParser.v2", "state_type": "ner", "hidden_width": 8}
    rest = {"extra_state_tokens": False, "maxout_pieces": 2, "use_upper": True, "tok2vec": listener}
    nlp.add_pipe("ner", config={"model": {**parser, **rest}})
    return nlp


def examples(nlp: "spacy.Language") -> list[Example]:
    return [Example(nlp.make_doc(doc.text), doc) for doc in annotated(nlp.vocab)]


@pytest.mark.parametrize("layers", [None, [2], [0, -1]])
def test_values_and_gradients_are_those_of_the_scalar_mix(layers: list[int] | None) -> None:
    model, docs = initialized(layers=layers)
    mix = mix_of(model)
    mix.set_param("weights", np.linspace(-0.5, 0.7, mix.get_param("weights").size, dtype="float32"))
    mix.set_param("gamma", np.array([1.3], dtype="float32"))
    vectors, backprop = mix.begin_update(docs)
    gradients = [np.random.default_rng(0).standard_normal(each.shape).astype("float32") for each in vectors]
    backprop(gradients)

    reference = ScalarMix(mix.get_param("weights").size, weights=mix.get_param("weights").tolist())
    reference.gamma.data.fill_(1.3)
    embedded = Embedder(elmo.load(TINY)).embed([[token.text for token in doc] for doc in docs])
    flat = torch.from_numpy(np.concatenate(embedded, axis=1))[layers if layers else slice(None), None]
    expected = reference(flat, torch.ones(flat.shape[1:3], dtype=torch.bool))
    expected[0].backward(torch.from_numpy(np.concatenate(gradients)))
    np.testing.assert_allclose(np.concatenate(vectors), expected[0].detach(), atol=1e-3)  # the layers are in float16
    np.testing.assert_allclose(mix.get_grad("weights"), reference.weights.grad, rtol=0.02, atol=2e-3)
    np.testing.assert_allclose(mix.get_grad("gamma"), reference.gamma.grad.reshape(1), rtol=0.02, atol=2e-3)


def test_listeners_train_the_mix_and_leave_the_bilm_alone() -> None:
    nlp = shared_pipeline()
    data = examples(nlp)
    nlp.initialize(lambda: data)
    tok2vec = nlp.get_pipe("tok2vec").model
    bilm = frozen_bilm(tok2vec).embedder.model
    digest, weights = bilm.digest(), mix_of(tok2vec).get_param("weights").copy()
    assert not weights.any()
    optimizer = Adam(0.01)
    losses = [nlp.update(data, sgd=optimizer, losses={}) for _ in range(40)]
    assert losses[-1]["tagger"] < losses[0]["tagger"] / 2 and losses[-1]["ner"] < losses[0]["ner"] / 2
    assert np.abs(mix_of(tok2vec).get_param("weights")).min() > 0
    assert bilm.digest() == digest


def test_layers_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    embed = Embedder.embed
    monkeypatch.setattr(Embedder, "embed", lambda self, rows: (seen.extend(rows), embed(self, rows))[1])
    model, docs = initialized()
    seen.clear()
    first, _ = model.begin_update(docs)
    again, _ = model.begin_update(docs[::-1])
    assert sorted(seen) == sorted(row[0].split() for row in CORPUS)
    predicted = model.predict(docs)
    assert len(seen) == len(CORPUS)
    for one, other, third in zip(first, again[::-1], predicted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        np.testing.assert_allclose(one, third, atol=1e-5)

    unused, docs = initialized(cache_gb=0)
    seen.clear()
    for _ in range(2):
        vectors, _ = unused.begin_update(docs)
    assert len(seen) == 2 * len(CORPUS)
    assert len(vectors) == len(first)


def test_prediction_alone_fills_no_cache() -> None:
    model, docs = initialized()
    model.predict(docs)
    assert frozen_bilm(model)._cache is None


def test_a_full_cache_keeps_its_entries() -> None:
    rows = [["a"], ["b", "c"], ["d"]]
    arrays = [np.full((3, len(tokens), 4), place, np.float16) for place, tokens in enumerate(rows)]
    cache = LayerFile(max_bytes=arrays[0].nbytes + arrays[1].nbytes)
    with pytest.warns(UserWarning, match="cache_gb"):
        for tokens, layers in zip(rows, arrays, strict=True):
            cache.add(tokens, layers)
    assert len(cache) == 2 and cache.get(rows[2]) is None and cache.get(["b"]) is None
    for tokens, layers in zip(rows[:2], arrays[:2], strict=True):
        np.testing.assert_array_equal(cache.get(tokens), layers)


def test_a_cache_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(WriteError, match=r"missing.*cache_gb"):
        LayerFile(1000)


def test_whitespace_and_empty_docs() -> None:
    model, _ = initialized()
    nlp = spacy.blank("en")
    vectors = mix_of(model).predict([nlp("Ann \n sleeps"), nlp(""), nlp("  ")])
    assert [len(each) for each in vectors] == [3, 0, 1]
    assert vectors[0][0].any() and not vectors[0][1].any() and not vectors[2].any()
    assert [each.shape for each in model.predict([nlp("")])] == [(0, WIDTH)]


def test_predictions_do_not_depend_on_the_groups_that_docs_are_cut_into(monkeypatch: pytest.MonkeyPatch) -> None:
    model, docs = initialized()
    together = model.predict(docs)
    monkeypatch.setattr("elmo.integrations.spacy.tok2vec._PREDICTED_TOKENS", 12)
    apart = model.predict(docs)
    assert len(apart) == len(together) == len(docs)
    for one, other in zip(apart, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)


def test_sentences_are_spacys() -> None:
    model, _ = initialized()
    nlp = spacy.blank("en")
    text = "Ann sleeps. Dogs bark."
    together = mix_of(model).predict([nlp(text)])[0]
    nlp.add_pipe("sentencizer")
    apart = mix_of(model).predict([nlp(text)])[0]
    alone = mix_of(model).predict([nlp("Ann sleeps.")])[0]
    np.testing.assert_allclose(apart[:3], alone, atol=1e-3)
    assert np.abs(together[:3] - alone).max() > 1e-3


def test_a_saved_pipeline_needs_nothing_else(bilm: PretrainedBiLM, folder: Path, tmp_path: Path) -> None:
    nlp = shared_pipeline(model=str(folder))
    data = examples(nlp)
    nlp.initialize(lambda: data)
    nlp.update(data, sgd=Adam(0.01))
    expected = nlp("Ann sees Rome.")
    nlp.to_disk(tmp_path / "pipeline")
    as_bytes = nlp.to_bytes()
    shutil.rmtree(folder)
    loaded = spacy.load(tmp_path / "pipeline")
    empty = spacy.blank("en").from_config(nlp.config)
    # Pickled is the loaded one: after an update, spaCy's listeners hold functions that do not pickle.
    for again in (loaded, empty.from_bytes(as_bytes), pickle.loads(pickle.dumps(loaded))):
        doc = again("Ann sees Rome.")
        np.testing.assert_allclose(doc.tensor, expected.tensor, atol=1e-5)
        assert [token.tag_ for token in doc] == [token.tag_ for token in expected]
    assert frozen_bilm(loaded.get_pipe("tok2vec").model).embedder.model.digest() == bilm.digest()
    loaded.replace_listeners("tok2vec", "tagger", ["model.tok2vec"])  # copies the model into the tagger
    assert [token.tag_ for token in loaded("Ann sees Rome.")] == [token.tag_ for token in expected]


def test_bad_settings_are_refused() -> None:
    nlp = shared_pipeline(model="englsh")
    with pytest.raises(CheckpointError, match=r"No model called 'englsh'.*Did you mean 'english'"):
        nlp.initialize(lambda: examples(nlp))
    with pytest.raises(ConfigError, match=r"layers is \[0, 3\]; expected some of 0 to 2"):
        initialized(layers=[0, 3])
    with pytest.raises(ConfigError, match="width is 0"):
        build_tok2vec(width=0)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Python that finds the entry points which pyproject.toml declares, as after an installation."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    site = tmp_path / "site" / "elmo_torch-0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: elmo-torch\nVersion: 0\n")
    sections = (
        "\n".join([f"[{group}]", *(f"{name} = {place}" for name, place in points.items())])
        for group, points in declared.items()
    )
    (site / "entry_points.txt").write_text("\n".join(sections))
    source = Path(elmo.__file__).parents[1]
    yield {**os.environ, "PYTHONPATH": os.pathsep.join([str(site.parent), str(source)])}


def test_spacy_train_runs_the_example_config(tmp_path: Path, environment: dict[str, str], folder: Path) -> None:
    DocBin(docs=annotated(spacy.blank("en").vocab)).to_disk(tmp_path / "corpus.spacy")

    def run(*arguments: object) -> str:
        command = [sys.executable, "-m", "spacy", *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("init", "fill-config", CONFIG, "filled.cfg")
    paths = ("--paths.train", "corpus.spacy", "--paths.dev", "corpus.spacy", "--output", "run")
    short = ("--training.max_steps", 120, "--training.eval_frequency", 40, "--training.optimizer.learn_rate", 0.01)
    labels = ("--components.parser.min_action_freq", 1)
    run("train", "filled.cfg", *paths, *short, *labels, "--components.tok2vec.model.model", folder)
    shutil.rmtree(folder)
    nlp = spacy.load(tmp_path / "run" / "model-best")
    scores = nlp.evaluate(examples(nlp))
    for name in ("tag_acc", "dep_uas", "ents_f", "cats_score"):
        assert scores[name] > 0.8, (name, scores[name])
    assert mix_of(nlp.get_pipe("tok2vec").model).get_param("weights").any()
