import warnings
from typing import Any

import pytest

from elmo.embedding.token_lists import as_token_lists
from elmo.errors import InputError


def _lists(sentences: Any) -> list[list[str]]:
    return list(as_token_lists(sentences, "ptb-like"))


def test_a_bare_string_is_one_sentence_and_not_letters() -> None:
    assert _lists("It works.") == [["It", "works", "."]]


def test_strings_are_split_and_token_lists_left_alone() -> None:
    assert _lists(["It works.", ""]) == [["It", "works", "."], []]
    assert _lists([["It works.", ""], ()]) == [["It works.", ""], []]
    assert _lists(iter([["a"]])) == [["a"]]


def test_a_list_of_tokens_instead_of_sentences_is_refused() -> None:
    with pytest.warns(UserWarning, match=r"\[\[\.\.\.\]\]"):
        assert len(_lists(["She", "sat", "down"])) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _lists(["One."])
        _lists(["She sat.", "Yes"])


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["a b", ["c"]], "Sentence 1 is a list of tokens, but those before it are strings"),
        ([["a"], "b c"], "Sentence 1 is a string, but those before it are lists"),
        ([["a"], None], "Sentence 1 is NoneType"),
        ([b"bytes"], "Sentence 0 is bytes"),
        ([[["a"]]], "Token 0 of sentence 0 is list"),
        ([["a", 3]], "Token 1 of sentence 0 is int"),
        (b"bytes", "Decode bytes"),
        (7, "int was given"),
    ],
)
def test_other_types_are_refused(sentences: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _lists(sentences)
