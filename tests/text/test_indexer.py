import pytest
import torch

from elmo.errors import InputError
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import TokenIndexer, distinct_ids

INDEXER = TokenIndexer(CharacterScheme.utf8(), None)


def test_distinct_words_are_listed_once_and_markers_are_added() -> None:
    batch = INDEXER.batch([["a", "b", "a"], ["b"]])
    assert batch.words.texts == ["<S>", "a", "b", "</S>"]
    assert batch.positions.tolist() == [[0, 1, 2, 1, 3], [0, 2, 3, 0, 0]]
    assert batch.lengths.tolist() == [5, 3]


def test_characters_are_those_of_the_words() -> None:
    batch = INDEXER.batch([["hello"]])
    scheme = CharacterScheme.utf8()
    for word, ids in zip(batch.words.texts, batch.words.characters.tolist(), strict=True):
        assert ids == scheme.encode_word(word)[: len(ids)]


def test_markers_can_be_the_callers() -> None:
    assert INDEXER.batch([["<S>", "a", "</S>"]], markers=False).lengths.tolist() == [3]


def test_an_empty_sentence_is_its_markers() -> None:
    assert INDEXER.batch([[]]).positions.tolist() == [[0, 1]]


def test_no_sentences_give_an_empty_batch() -> None:
    batch = INDEXER.batch([])
    assert batch.positions.shape == (0, 0) and len(batch.words) == 0


def test_a_string_is_not_split_into_letters() -> None:
    with pytest.raises(InputError, match="list of tokens"):
        INDEXER.batch(["hello there"])


@pytest.mark.parametrize("sentences", [[[["a"]]], [[{"a": 1}]], [[1]], [1]])
@pytest.mark.parametrize("markers", [True, False])
def test_what_is_not_lists_of_strings_is_refused(sentences: list[object], markers: bool) -> None:
    with pytest.raises(InputError, match="expected"):
        INDEXER.batch(sentences, markers=markers)


def test_a_batch_moves_to_a_device_completely() -> None:
    moved = INDEXER.batch([["a"]]).to("meta")
    assert {moved.positions.device, moved.lengths.device, moved.words.characters.device} == {torch.device("meta")}


def test_ids_of_words_are_numbered_as_words_are() -> None:
    scheme, sentences = CharacterScheme.utf8(), [["a", "river", "a"], [], ["bank"]]
    batch = INDEXER.batch(sentences)
    spelled = torch.zeros(3, 3, scheme.max_characters, dtype=torch.long)
    for row, tokens in zip(spelled, sentences, strict=True):
        for place, token in enumerate(tokens):
            row[place] = torch.tensor(scheme.encode_word(token))
    markers = torch.tensor([scheme.encode_word("<S>"), scheme.encode_word("</S>")])
    rows, positions, lengths = distinct_ids(spelled, (spelled > 0).any(dim=-1), markers)
    assert batch.words.characters is not None
    assert len(rows) == len(batch.words) and torch.equal(lengths, batch.lengths)
    assert torch.equal(rows[positions][..., : batch.words.characters.shape[1]], batch.words.characters[batch.positions])
