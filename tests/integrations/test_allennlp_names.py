"""The names, inputs and habits of code written for AllenNLP 0.9 to 2.10 (numbers: test_allennlp.py)."""

import copy
import io
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from torch import nn

from elmo.checkpoints import published
from elmo.errors import ConfigError, InputError
from elmo.integrations.allennlp import (
    ConfigurationError,
    Elmo,
    ELMoCharacterMapper,
    ElmoEmbedder,
    ElmoLstm,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    ElmoTokenEmbedderMultiLang,
    LstmCellWithProjection,
    _ElmoBiLm,
    _ElmoCharacterEncoder,
    _EncoderBase,
    add_sentence_boundary_token_ids,
    batch_to_ids,
    remove_sentence_boundaries,
)
from elmo.integrations.allennlp.__main__ import main

GOLDEN = Path(__file__).parent.parent / "golden"
RELU2 = GOLDEN / "allennlp" / "relu2"
FILES = str(RELU2 / "options.json"), str(RELU2 / "weights.hdf5")
SENTENCES = [["A", "long", "sentence", "."], ["Another", "."]]


def test_the_mask_serves_the_code_of_both_versions() -> None:
    output = Elmo(*FILES, 1, dropout=0.0)(batch_to_ids(SENTENCES))
    vectors, mask = output["elmo_representations"][0], output["mask"]
    real = torch.tensor([[True, True, True, True], [True, True, False, False]])
    # 2.x
    assert vectors[mask].shape == (6, 14)
    assert torch.equal(~mask, ~real) and mask.dtype == torch.bool
    assert torch.equal(vectors.masked_fill(~mask.unsqueeze(-1), 0), vectors)
    # 0.9
    for inverted in (1 - mask, torch.ones(2, 4, dtype=torch.long) - mask):
        assert torch.equal(inverted, (~real).long())
    assert torch.equal(mask - 1, real.long() - 1)
    assert torch.equal((1.0 - mask), (~real).float())
    assert mask.sum(dim=1).tolist() == [4, 2] and mask.long().sum() == 6 and mask.float().mean() == 0.75
    assert mask.data.numpy().sum(axis=1).tolist() == [4, 2]
    # What is made of it is a plain tensor, and it can be copied and stored.
    assert type(mask & real) is torch.Tensor
    assert torch.equal(copy.deepcopy(mask), real)
    stored = io.BytesIO()
    torch.save(mask, stored)
    stored.seek(0)
    assert torch.equal(torch.load(stored, weights_only=True), real)


def test_loops_over_modules_find_the_state() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.elmo = Elmo(*FILES, 1, dropout=0.0)

    tagger, ids = Tagger(), batch_to_ids(SENTENCES)
    first = tagger.elmo(ids)["elmo_representations"][0]
    assert not torch.allclose(tagger.elmo(ids)["elmo_representations"][0], first)
    for module in tagger.modules():
        if isinstance(module, _EncoderBase) and module.stateful:
            module.reset_states()
    torch.testing.assert_close(tagger.elmo(ids)["elmo_representations"][0], first)
    for module in tagger.modules():
        if hasattr(module, "stateful"):
            module.stateful = False
    torch.testing.assert_close(tagger.elmo(ids)["elmo_representations"][0], first)


def tuned_state() -> dict[str, torch.Tensor]:
    stored = np.load(RELU2 / "tuned.npz")
    return {name[6:]: torch.from_numpy(stored[name]) for name in stored.files if name.startswith("state/")}


def test_a_state_dict_of_allennlp_with_a_tuned_bilm_is_loaded_and_given_back() -> None:
    module = Elmo(*FILES, 2, dropout=0.0)
    state = tuned_state()
    assert set(module.state_dict()) == set(state)
    before = module(batch_to_ids(SENTENCES))["elmo_representations"][0]
    module.load_state_dict(state)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    module._elmo_lstm._elmo_lstm.reset_states()  # type: ignore[operator, union-attr]
    assert not torch.allclose(module(batch_to_ids(SENTENCES))["elmo_representations"][0], before, atol=1e-3)


def test_a_loaded_state_dict_gives_allennlps_numbers() -> None:
    batch = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))["batches"][1]
    expected = np.load(RELU2 / "tuned.npz")
    module = Elmo(*FILES, 2, dropout=0.0)
    module.load_state_dict(tuned_state())
    for k, vectors in enumerate(module(batch_to_ids(batch))["elmo_representations"]):
        np.testing.assert_allclose(vectors.detach().numpy(), expected[f"representation_{k}"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("strict", [True, False])
def test_half_a_bilm_or_another_one_is_refused(strict: bool) -> None:
    half = {name: tensor for name, tensor in tuned_state().items() if "backward_layer" not in name}
    larger = tuned_state() | {"_elmo_lstm._elmo_lstm.forward_layer_2.input_linearity.weight": torch.zeros(1)}
    for state in (half, larger):
        with pytest.raises(RuntimeError, match="is not the one in this model"):
            Elmo(*FILES, 2).load_state_dict(state, strict=strict)
    mixes = {name: tensor for name, tensor in tuned_state().items() if name.startswith("scalar_mix")}
    loaded = Elmo(*FILES, 2).load_state_dict(mixes, strict=False)
    assert not loaded.unexpected_keys and loaded.missing_keys


def test_copies_share_nothing_and_keep_what_was_learned() -> None:
    module = Elmo(*FILES, 1, dropout=0.0, requires_grad=True)
    copied = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.mul_(0.5)
    ids = batch_to_ids(SENTENCES)
    assert not torch.allclose(module(ids)["elmo_representations"][0], copied(ids)["elmo_representations"][0])
    module.load_state_dict(copied.state_dict())
    for part in (module, copied):
        part._elmo_lstm._elmo_lstm.reset_states()  # type: ignore[operator, union-attr]
    assert torch.equal(module(ids)["elmo_representations"][0], copied(ids)["elmo_representations"][0])


def test_a_string_is_a_sentence_of_characters_with_one_warning() -> None:
    proteins = ["MKV", "LAAGT"]
    with pytest.warns(UserWarning, match="every character is a token") as caught:
        ids = batch_to_ids(proteins)
    assert len(caught) == 1
    assert torch.equal(ids, batch_to_ids([list(protein) for protein in proteins]))
    embedder = ElmoEmbedder(*FILES)
    with pytest.warns(UserWarning, match="every character is a token"):
        assert embedder.embed_sentence("MKV").shape == (3, 3, 14)


def test_rows_may_be_arrays() -> None:
    expected = batch_to_ids(SENTENCES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(batch_to_ids([np.array(sentence) for sentence in SENTENCES]), expected)
        objects = np.empty(2, dtype=object)
        objects[:] = SENTENCES
        assert torch.equal(batch_to_ids(objects), expected)
        assert torch.equal(batch_to_ids(tuple(map(tuple, SENTENCES))), expected)
        assert batch_to_ids(np.array([["a", "b"], ["c", "d"]])).shape == (2, 2, 50)
    embedder = ElmoEmbedder(*FILES, cuda_device=-1)
    assert embedder.embed_sentence(np.array(["a", "b"])).shape == (3, 2, 14)
    assert batch_to_ids([]).shape == (0, 0, 50) and batch_to_ids([[]]).shape == (1, 0, 50)


def test_character_mapper_and_indexer() -> None:
    mapper = ELMoCharacterMapper({"<special>": 5})
    assert mapper.convert_word_to_char_ids("cat")[:5] == [259, 100, 98, 117, 260]
    assert mapper.convert_word_to_char_ids("<special>")[:4] == [259, 6, 260, 261]
    assert ELMoCharacterMapper.beginning_of_sentence_characters[:4] == [258, 256, 259, 260]
    assert (ELMoCharacterMapper.padding_character, ELMoCharacterMapper.max_word_length) == (260, 50)
    assert mapper == ELMoCharacterMapper({"<special>": 5}) != ELMoCharacterMapper()

    indexer = ElmoEmbedder(*FILES).indexer
    assert indexer == ELMoTokenCharactersIndexer()
    tokens = [SimpleNamespace(text=word) for word in SENTENCES[0]]
    old = indexer.tokens_to_indices(tokens, None, "elmo")
    new = indexer.tokens_to_indices(tokens, None)
    assert old["elmo"] == new["elmo_tokens"]
    padded = indexer.as_padded_tensor(old, {"elmo": 5}, {})["elmo"]
    assert torch.equal(padded, indexer.as_padded_tensor_dict(new, {"elmo_tokens": 5})["elmo_tokens"])
    assert torch.equal(padded[:4], batch_to_ids(SENTENCES[:1])[0]) and not padded[4].any()
    assert indexer.get_padding_lengths(new) == {"elmo_tokens": 4}
    longer = ELMoTokenCharactersIndexer(token_min_padding_length=7)
    assert longer.get_padding_lengths(new) == {"elmo_tokens": 7} and longer.get_token_min_padding_length() == 7
    assert indexer.get_empty_token_list() == {"elmo_tokens": []}


def test_sentence_boundaries_are_added_and_removed() -> None:
    ids = torch.tensor([[5, 6, 7], [8, 0, 0]])
    marked, mask = add_sentence_boundary_token_ids(ids, ids > 0, 9, 10)
    assert marked.tolist() == [[9, 5, 6, 7, 10], [9, 8, 10, 0, 0]]
    assert mask.long().tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    vectors = torch.arange(12.0).view(2, 3, 2) + 1
    marked, mask = add_sentence_boundary_token_ids(vectors, ids > 0, torch.zeros(2), torch.ones(2))
    inner, inner_mask = remove_sentence_boundaries(marked, mask)
    assert torch.equal(inner, vectors * (ids > 0)[..., None]) and torch.equal(inner_mask, ids > 0)


def test_the_character_encoder_gives_layer_0() -> None:
    ids = batch_to_ids(SENTENCES)
    bilm = _ElmoBiLm(*FILES)
    layer_0 = bilm(ids)["activations"][0]
    for encoder in (_ElmoCharacterEncoder(*FILES), bilm._token_embedder):
        output = encoder(ids)
        torch.testing.assert_close(output["token_embedding"], layer_0[..., :7])
        assert torch.equal(output["mask"], torch.tensor([[True] * 6, [True] * 4 + [False] * 2]))
        assert encoder.get_output_dim() == 7
    learns = _ElmoCharacterEncoder(*FILES, requires_grad=True)
    learns(ids)["token_embedding"].sum().backward()
    assert all(parameter.grad is not None for parameter in learns.parameters())


def test_lstm_modules_of_ones_own() -> None:
    torch.manual_seed(0)
    lstm = ElmoLstm(3, 5, 7, 2, memory_cell_clip_value=2, state_projection_clip_value=1, requires_grad=True)
    inputs, mask = torch.rand(2, 4, 3), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    first = lstm(inputs, mask)
    assert first.shape == (2, 2, 4, 10) and not first[:, 1, 2:].any()
    assert lstm._states is not None and [tuple(state.shape) for state in lstm._states] == [(2, 2, 10), (2, 2, 14)]
    assert not torch.allclose(lstm(inputs, mask), first)
    lstm.reset_states()
    torch.testing.assert_close(lstm(inputs, mask), first)
    # One layer by itself is the first of the stack.
    for go_forward, half in ((True, slice(0, 5)), (False, slice(5, 10))):
        cell = LstmCellWithProjection(3, 5, 7, go_forward, 0.0, 2, 1)
        cell.stack.layers[0] = (lstm.forward_lstm if go_forward else lstm.backward_lstm).layers[0]
        output, (hidden, memory) = cell(inputs, [4, 2])
        torch.testing.assert_close(output, first[0, :, :, half])
        assert hidden.shape == (1, 2, 5) and memory.shape == (1, 2, 7)
    with pytest.raises(ConfigError, match="recurrent_dropout_probability"):
        ElmoLstm(3, 5, 7, 2, recurrent_dropout_probability=0.1)


def test_word_ids_as_both_inputs() -> None:
    words = ["@@PADDING@@", *SENTENCES[0], *SENTENCES[1]]
    word_ids = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
    expected = Elmo(*FILES, 1, dropout=0.0)(batch_to_ids(SENTENCES))
    output = Elmo(*FILES, 1, dropout=0.0, vocab_to_cache=words)(word_ids, word_ids)
    torch.testing.assert_close(output["elmo_representations"][0], expected["elmo_representations"][0])
    assert torch.equal(output["mask"], expected["mask"])
    deeper = word_ids.view(2, 1, 4)
    vectors = Elmo(*FILES, 1, dropout=0.0, vocab_to_cache=words)(deeper, deeper)["elmo_representations"][0]
    torch.testing.assert_close(vectors[:, 0], expected["elmo_representations"][0])
    with pytest.raises(InputError, match="vocab_to_cache"):
        Elmo(*FILES, 1, vocab_to_cache=words[:3])(word_ids, word_ids)


def test_version_2s_defaults_and_argument_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = batch_to_ids(SENTENCES)
    embedder = ElmoTokenEmbedder(*FILES, dropout=0.0)
    vectors = embedder(elmo_tokens=ids)
    embedder._elmo._elmo_lstm._elmo_lstm.reset_states()  # type: ignore[operator, union-attr]
    torch.testing.assert_close(vectors, embedder(ids))
    # The addresses, of the bucket's old name and its new one, mean a model of the catalogue, here in its cache.
    model = published.catalogue()["ai2-original"]
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    model.folder.mkdir(parents=True)
    for source, target in zip(FILES, model.files, strict=True):
        shutil.copy(source, target)
    old = [
        address.replace("allennlp.s3.", "s3-us-west-2.").replace(".com/", ".com/allennlp/")
        for address in model.addresses
    ]
    for by_address in (ElmoTokenEmbedder(dropout=0.0), ElmoTokenEmbedder(*old, dropout=0.0)):
        torch.testing.assert_close(by_address(ids), vectors)
    with pytest.raises(ConfigurationError, match="ELMO_OFFLINE"):
        ElmoTokenEmbedder(*published.catalogue()["ai2-small"].addresses)


@pytest.mark.parametrize("as_array", [False, True])
def test_languages_aligned_by_matrices(tmp_path: Path, as_array: bool) -> None:
    matrix = torch.randn(14, 14)
    torch.save(matrix.numpy() if as_array else matrix, tmp_path / "align.pth")
    files = {"fr": FILES[0], "de": FILES[0]}, {"fr": FILES[1], "de": FILES[1]}
    embedder = ElmoTokenEmbedderMultiLang(*files, dropout=0.0, aligning_files={"de": tmp_path / "align.pth"})
    ids = batch_to_ids(SENTENCES)
    french, german = embedder(ids, "fr"), embedder(ids, lang="de")
    torch.testing.assert_close(french, Elmo(*FILES, 1, dropout=0.0)(ids)["elmo_representations"][0])
    torch.testing.assert_close(german, french @ matrix.T)
    params = {"type": "elmo_token_embedder_multilang", "options_files": files[0], "weight_files": files[1]}
    assert ElmoTokenEmbedderMultiLang.from_params(None, {**params, "projection_dim": 3}).get_output_dim() == 3
    with pytest.raises(ConfigurationError, match="same languages"):
        ElmoTokenEmbedderMultiLang(files[0], {"fr": FILES[1]})


def test_models_that_do_not_read_bytes_are_refused() -> None:
    for folder in (GOLDEN / "bilm" / "word", GOLDEN / "efml" / "char_only"):
        with pytest.raises(ConfigurationError, match="UTF-8 bytes"):
            Elmo(folder, None, 1)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, out = tmp_path / "lines.txt", tmp_path / "out.hdf5"
    lines.write_text("The cat sat\nA dog\n", encoding="utf-8")
    model = ["--options-file", FILES[0], "--weight-file", FILES[1]]
    main(["elmo", str(lines), str(out), "--top", "--forget-sentences", *model])
    with h5py.File(out) as file:
        assert {key: file[key].shape for key in file} == {"0": (3, 14), "1": (2, 14)}
    main(["elmo", str(lines), str(out), "--all", "--use-sentence-keys", *model])
    with h5py.File(out) as file:
        assert {key: file[key].shape for key in file} == {"The cat sat": (3, 3, 14), "A dog": (3, 2, 14)}
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Größe\n".encode("latin-1"))
    for wrong, message in (
        ([str(lines), "--options-file", "nowhere.json"], "nowhere.json"),
        ([str(lines), "--cuda-device", "99"], "cuda:99"),
        ([str(latin)], "not utf-8"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["elmo", wrong[0], str(out), "--all", *model, *wrong[1:]])
        assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "elmo.integrations.allennlp", "elmo", "--help"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "--use-sentence-keys" in done.stdout
