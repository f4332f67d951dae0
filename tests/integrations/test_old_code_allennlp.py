"""Small programs in the style of public scripts that use AllenNLP's ELMo: only their imports would have to change.

Each test is one kind of old code. The model is a tiny one, (3 layers, 14 wide), from tests/golden.
"""

import copy
import io
import json
import pickle
from collections import defaultdict
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

from elmo.integrations.allennlp import (
    Elmo,
    ELMoCharacterMapper,
    ElmoEmbedder,
    ElmoTokenEmbedder,
    ScalarMix,
    _ElmoBiLm,
    batch_to_ids,
    remove_sentence_boundaries,
)

RELU2 = Path(__file__).parent.parent / "golden" / "allennlp" / "relu2"
options_file, weight_file = str(RELU2 / "options.json"), str(RELU2 / "weights.hdf5")
DIM = 14
sentences = [["I", "ate", "an", "apple", "for", "breakfast"], ["I", "ate", "a", "carrot"]]


@pytest.fixture
def elmo() -> ElmoEmbedder:
    return ElmoEmbedder(options_file=options_file, weight_file=weight_file, cuda_device=-1)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


# --- ElmoEmbedder ---


def test_layers_of_one_sentence(elmo: ElmoEmbedder) -> None:
    vectors = elmo.embed_sentence(sentences[0])
    assert len(vectors) == 3 and len(vectors[0]) == len(sentences[0])
    assert vectors[2][3].shape == (DIM,) and isinstance(vectors, np.ndarray) and vectors.dtype == np.float32


def test_one_word_in_two_sentences(elmo: ElmoEmbedder) -> None:
    first, second = elmo.embed_batch(sentences)
    assert 0 < cosine(first[2][1], second[2][1]) < 1
    assert cosine(first[0][1], second[0][1]) == pytest.approx(1)


def test_vectors_by_word_over_a_corpus(elmo: ElmoEmbedder) -> None:
    by_word = defaultdict(list)
    for tokens, layers in zip(sentences * 3, elmo.embed_sentences(sentences * 3, batch_size=2), strict=True):
        for token, vector in zip(tokens, layers.mean(axis=0), strict=True):
            by_word[token].append(vector)
    assert len(by_word["ate"]) == 6 and np.mean(by_word["ate"], axis=0).shape == (DIM,)


def test_layers_side_by_side_in_a_padded_matrix(elmo: ElmoEmbedder) -> None:
    longest = 8
    features = np.zeros((longest, 3 * DIM))
    vectors = elmo.embed_sentence(["this", "movie", "was", "good"])
    for place in range(4):
        features[place] = np.concatenate((vectors[0][place], vectors[1][place], vectors[2][place]), axis=None)
    assert np.count_nonzero(features.any(axis=1)) == 4


def test_document_vectors_for_a_classifier(elmo: ElmoEmbedder) -> None:
    matrix = np.array([np.mean(vectors[-1], axis=0) for vectors in elmo.embed_sentences(sentences)])
    assert matrix.shape == (2, DIM)


def test_a_file_and_what_it_holds(elmo: ElmoEmbedder, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The cat sat .\nA dog ran .\n", encoding="utf-8")
    with open(tmp_path / "in.txt", encoding="utf-8") as lines:
        elmo.embed_file(lines, str(tmp_path / "out.hdf5"), output_format="all", batch_size=1)
    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        index = json.loads(file.get("sentence_to_index")[0])
        assert file[index["A dog ran ."]].shape == (3, 4, DIM)


def test_a_dump_of_ones_own(elmo: ElmoEmbedder, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "dump.hdf5", "w") as out:
        for number, layers in enumerate(elmo.embed_sentences(sentences)):
            group = out.create_group(str(number))
            for layer in range(3):
                group.create_dataset(f"layer_{layer}", data=layers[layer], compression="gzip")
    with h5py.File(tmp_path / "dump.hdf5") as file:
        assert file["1/layer_2"].shape == (4, DIM)


def test_protein_sequences(elmo: ElmoEmbedder) -> None:
    sequences = ["SEQWENCE", "PRTEIN"]
    with pytest.warns(UserWarning, match="every character is a token"):
        embeddings = list(elmo.embed_sentences(sequences))
    per_residue = [torch.tensor(embedding).sum(dim=0) for embedding in embeddings]
    assert [residues.shape for residues in per_residue] == [(8, DIM), (6, DIM)]
    assert per_residue[0].mean(dim=0).shape == (DIM,)
    elmo.elmo_bilm._elmo_lstm.reset_states()
    np.testing.assert_array_equal(elmo.embed_sentence(list("SEQWENCE")).shape, embeddings[0].shape)


def test_padded_token_arrays(tmp_path: Path) -> None:
    module = Elmo(options_file, weight_file, 1, dropout=0)
    for number, tokens in enumerate(sentences):
        padded = np.array([tokens + ["PAD"] * (10 - len(tokens))])
        np.save(
            tmp_path / f"instance_{number}.npy", module(batch_to_ids(padded))["elmo_representations"][0].data.numpy()
        )
    assert np.load(tmp_path / "instance_1.npy").shape == (1, 10, DIM)


def test_each_document_from_a_fresh_state(elmo: ElmoEmbedder) -> None:
    first = elmo.embed_sentence(sentences[0])
    elmo.elmo_bilm._elmo_lstm._states = None
    np.testing.assert_array_equal(elmo.embed_sentence(sentences[0]), first)
    elmo.elmo_bilm._elmo_lstm.stateful = False
    np.testing.assert_array_equal(elmo.embed_sentence(sentences[0]), first)


def test_a_warm_up_on_some_text(elmo: ElmoEmbedder) -> None:
    cold = elmo.embed_sentence(sentences[0])
    for _ in elmo.embed_sentences(sentences * 5, batch_size=1):
        pass
    assert abs(elmo.embed_sentence(sentences[0]) - cold).max() > 1e-4


def test_masked_means_of_a_batch(elmo: ElmoEmbedder) -> None:
    elmo.elmo_bilm.to(torch.device("cpu"))
    activations, mask = elmo.batch_to_embeddings(sentences)
    top = activations[:, 2]
    means = (top * mask.unsqueeze(-1).float()).sum(dim=1) / mask.sum(dim=1, keepdim=True).float()
    torch.testing.assert_close(means[1], top[1, :4].mean(dim=0))


def test_a_wrapper_that_measures_its_width(elmo: ElmoEmbedder) -> None:
    class Embeddings:
        def __init__(self) -> None:
            self.ee = elmo
            self.embedding_length = len(self.embed([["hello"]])[0][0])

        def embed(self, batch: list[list[str]]) -> list[list[torch.Tensor]]:
            found = []
            for tokens, layers in zip(batch, self.ee.embed_batch(batch), strict=True):
                found.append([
                    torch.cat([torch.FloatTensor(layers[k, place, :]) for k in range(3)], 0)
                    for place in range(len(tokens))
                ])  # fmt: skip
            return found

    assert Embeddings().embedding_length == 3 * DIM


def test_pickled_results(elmo: ElmoEmbedder) -> None:
    cache = {" ".join(tokens): layers for tokens, layers in zip(sentences, elmo.embed_batch(sentences), strict=True)}
    assert pickle.loads(pickle.dumps(cache))["I ate a carrot"].shape == (3, 4, DIM)


# --- Elmo in models ---


def test_two_representations() -> None:
    module = Elmo(options_file, weight_file, 2, dropout=0)
    embeddings = module(batch_to_ids([["First", "sentence", "."], ["Another", "."]]))
    assert [tuple(r.shape) for r in embeddings["elmo_representations"]] == [(2, 3, DIM)] * 2
    assert torch.cat(embeddings["elmo_representations"], dim=2).shape == (2, 3, 2 * DIM)


class Tagger(nn.Module):
    """An LSTM over ELMo, with the loss at real tokens alone."""

    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.elmo = Elmo(options_file, weight_file, 1, dropout=0.0, **settings)  # type: ignore[arg-type]
        self.lstm = nn.LSTM(self.elmo.get_output_dim(), 8, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(16, 3)

    def forward(self, character_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = self.elmo(character_ids)
        vectors, mask = output["elmo_representations"][0], output["mask"]
        packed = pack_padded_sequence(vectors, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        encoded, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.tags(encoded), mask


def test_a_tagger_learns() -> None:
    torch.manual_seed(0)
    model, gold = Tagger(), torch.tensor([[0, 1, 2, 0, 1, 2], [2, 1, 0, 1, 0, 0]])
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        logits, mask = model(batch_to_ids(sentences))
        loss = nn.functional.cross_entropy(logits[mask], gold[mask])  # as code for 2.x selects
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_masks_as_numbers() -> None:
    logits, mask = Tagger()(batch_to_ids(sentences))
    weights = mask.float()
    loss = (logits.sum(dim=-1) * weights).sum() / (weights.sum() + 1e-13)
    scores = logits[..., 0] + (1 - mask) * -1e9  # as code for 0.9 hides padding
    attention = torch.softmax(scores, dim=-1)
    assert torch.isfinite(loss) and not attention[1, 4:].any() and mask.byte().sum() == 10
    assert (mask == 1).sum() == 10 and torch.equal(mask > 0, mask) and mask.view(-1).nonzero().shape == (10, 1)


def test_fine_tuning_in_parameter_groups() -> None:
    model = Tagger(requires_grad=True)
    slow = [p for name, p in model.named_parameters() if "_elmo_lstm" in name]
    fast = [p for name, p in model.named_parameters() if "_elmo_lstm" not in name]
    assert slow and len(slow) + len(fast) == len(list(model.parameters()))
    before = [p.detach().clone() for p in slow]
    optimizer = torch.optim.SGD([{"params": slow, "lr": 0.1}, {"params": fast, "lr": 1.0}])
    model(batch_to_ids(sentences))[0].square().sum().backward()
    optimizer.step()
    assert sum(not torch.equal(old, new) for old, new in zip(before, slow, strict=True)) > len(slow) / 2


def test_freezing_everything() -> None:
    model = Tagger()
    for parameter in model.elmo.parameters():
        parameter.requires_grad = False
    model(batch_to_ids(sentences))[0].sum().backward()
    assert all(parameter.grad is None for parameter in model.elmo.parameters())
    assert model.lstm.weight_ih_l0.grad is not None


def test_a_single_layer_by_its_weight() -> None:
    ids = batch_to_ids(sentences)
    only_top = Elmo(options_file, weight_file, 1, dropout=0, scalar_mix_parameters=[-9e10, -9e10, 1])
    top, _ = remove_sentence_boundaries(*_layer_and_mask(ids, 2))
    torch.testing.assert_close(only_top(ids)["elmo_representations"][0], top)


def _layer_and_mask(ids: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    output = _ElmoBiLm(options_file, weight_file)(ids)
    return output["activations"][layer], output["mask"]


def test_layers_mixed_by_a_mix_of_ones_own() -> None:
    bilm, mix = _ElmoBiLm(options_file, weight_file), ScalarMix(3, do_layer_norm=False)
    output = bilm(batch_to_ids(sentences))
    mixed, mask = remove_sentence_boundaries(mix(output["activations"], output["mask"]), output["mask"])
    torch.testing.assert_close(
        mixed, Elmo(options_file, weight_file, 1, dropout=0)(batch_to_ids(sentences))["elmo_representations"][0]
    )
    assert mask.sum(dim=1).tolist() == [6, 4]


def test_sentence_markers_kept_and_layer_norm() -> None:
    module = Elmo(options_file, weight_file, 1, do_layer_norm=True, keep_sentence_boundaries=True, dropout=0)
    output = module(batch_to_ids(sentences))
    assert output["elmo_representations"][0].shape == (2, 8, DIM) and output["mask"].sum(dim=1).tolist() == [8, 6]


def test_a_cached_vocabulary_that_is_not_used() -> None:
    vocabulary = ["<PAD>", *sorted({token for tokens in sentences for token in tokens})]
    module = Elmo(options_file, weight_file, 1, dropout=0, vocab_to_cache=vocabulary)
    cached = {}
    for tokens, vectors in zip(sentences, module(batch_to_ids(sentences))["elmo_representations"][0], strict=True):
        cached[" ".join(tokens)] = vectors[: len(tokens)]
    assert cached["I ate a carrot"].shape == (4, DIM)


def test_word_ids_of_a_cached_vocabulary() -> None:
    vocabulary = ["<PAD>", *sorted({token for tokens in sentences for token in tokens})]
    module = Elmo(options_file, weight_file, 1, dropout=0, vocab_to_cache=vocabulary)
    ids = [torch.tensor([vocabulary.index(token) for token in tokens]) for tokens in sentences]
    words = nn.utils.rnn.pad_sequence(ids, batch_first=True)
    expected = Elmo(options_file, weight_file, 1, dropout=0)(batch_to_ids(sentences))["elmo_representations"][0]
    torch.testing.assert_close(module(words, words)["elmo_representations"][0], expected)


def test_features_as_arrays() -> None:
    module = Elmo(options_file, weight_file, 2, dropout=0).eval()
    features = module(batch_to_ids(tuple(sentences)))["elmo_representations"][1].detach().numpy()
    assert features.shape == (2, 6, DIM) and not features[1, 4:].any()


def test_saved_models() -> None:
    model, ids = Tagger(), batch_to_ids(sentences)
    saved = io.BytesIO()
    torch.save(model.state_dict(), saved)
    saved.seek(0)
    loaded = Tagger()
    loaded.load_state_dict(torch.load(saved))
    torch.testing.assert_close(loaded(ids)[0], model(ids)[0])
    whole = io.BytesIO()
    torch.save(model, whole)
    whole.seek(0)
    reopened = torch.load(whole, weights_only=False)
    torch.testing.assert_close(reopened(ids)[0], model(ids)[0])
    assert torch.equal(copy.deepcopy(model)(ids)[1], model(ids)[1])


def test_turns_of_a_dialogue() -> None:
    turns = torch.stack([batch_to_ids(sentences), batch_to_ids(sentences)])
    output = Elmo(options_file, weight_file, 1)(turns)
    assert output["elmo_representations"][0].shape == (2, 2, 6, DIM) and output["mask"].shape == (2, 2, 6)


def test_a_data_loader_that_makes_ids() -> None:
    class Reviews(Dataset[tuple[list[str], int]]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> tuple[list[str], int]:
            return sentences[index % 2], index % 2

    def collate(rows: list[tuple[list[str], int]]) -> tuple[torch.Tensor, torch.Tensor]:
        texts, labels = zip(*rows, strict=True)
        return batch_to_ids(texts), torch.tensor(labels)

    for ids, labels in DataLoader(Reviews(), batch_size=2, collate_fn=collate):
        assert ids.shape == (2, 6, 50) and labels.tolist() == [0, 1]


def test_what_the_mix_learned() -> None:
    module = Elmo(options_file, weight_file, 1)
    weights = torch.softmax(torch.cat(list(module.scalar_mix_0.scalar_parameters)), dim=0)
    assert weights.tolist() == pytest.approx([1 / 3] * 3) and module.scalar_mix_0.gamma.item() == 1
    penalty = sum(parameter.square().sum() for parameter in module._scalar_mixes[0].scalar_parameters)
    assert penalty == 0


def test_ids_made_by_hand() -> None:
    mapper = ELMoCharacterMapper()
    ids = torch.tensor([[mapper.convert_word_to_char_ids(token) for token in sentences[0]]])
    assert torch.equal(ids, batch_to_ids(sentences[:1]))


def test_a_token_embedder_with_a_projection() -> None:
    settings = {"options_file": options_file, "weight_file": weight_file, "projection_dim": 6, "dropout": 0.2}
    embedder = ElmoTokenEmbedder.from_params(vocab=None, params=settings)
    assert embedder(batch_to_ids(sentences)).shape == (2, 6, 6)
