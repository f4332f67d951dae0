"""WordNet's own order of senses, from small database files of our own and from the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.explore.files import opened_folder
from elmo.explore.wordnet import WordNet, glosses, part_of_speech


def test_senses_stand_in_order_of_rank_not_of_the_file(wordnet_folder: Path) -> None:
    wordnet = WordNet.read(wordnet_folder)
    assert [sense.key for sense in wordnet.senses("bank", "NOUN")] == ["bank%1:17:00::", "bank%1:14:01::"]
    assert wordnet.senses("bank", "n")[0].key == "bank%1:17:00::"
    assert [sense.rank for sense in wordnet.senses("bank", "NOUN")] == [1, 2]


def test_lemmas_are_found_in_any_case_and_with_spaces(wordnet_folder: Path) -> None:
    wordnet = WordNet.read(wordnet_folder.parent)
    assert wordnet.senses("River bed", "NOUN")[0].key == "river_bed%1:17:00::"


def test_a_satellite_is_an_adjective(wordnet_folder: Path) -> None:
    wordnet = WordNet.read(wordnet_folder)
    assert wordnet.senses("steep", "ADJ")[0].key == "steep%5:00:00:sharp:00"
    assert part_of_speech("steep%5:00:00:sharp:00") == "ADJ"


def test_an_unknown_lemma_or_part_of_speech_has_no_sense(wordnet_folder: Path) -> None:
    wordnet = WordNet.read(wordnet_folder)
    assert list(wordnet.senses("bank", "VERB")) == []
    assert wordnet.senses("xyzzy", "NOUN") == ()


def test_the_gloss_comes_without_examples(wordnet_folder: Path) -> None:
    wordnet = WordNet.read(wordnet_folder)
    assert wordnet.gloss("bank%1:17:00::") == "the ground beside a river"
    assert wordnet.gloss("river_bed%1:17:00::") == "what a river flows over"


def test_only_sense_keys_have_glosses(wordnet_folder: Path) -> None:
    found = glosses(["bank%1:17:00::", "cluster 1", "bank%1:17:00::"], wordnet_folder)
    assert found == {"bank%1:17:00::": WordNet.read(wordnet_folder).gloss("bank%1:17:00::")}


def test_a_database_without_glosses_is_named(wordnet_folder: Path) -> None:
    (wordnet_folder / "data.noun").unlink()
    with pytest.raises(InputError, match=r"no data\.noun .* wordnet-base"):
        glosses(["bank%1:17:00::"], wordnet_folder)


def test_a_folder_without_a_database_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wordnet-sense-index"):
        WordNet.read(tmp_path)


def test_a_foreign_line_is_refused_with_its_number(wordnet_folder: Path) -> None:
    path = wordnet_folder / "index.sense"
    path.write_text(path.read_text() + "not a sense\n")
    with pytest.raises(InputError, match=r"line 5: found 'not a sense'"):
        WordNet.read(wordnet_folder)


def test_the_real_database(shared: Path) -> None:
    with opened_folder(shared / "data/wordnet-3.0/dict.tar.zst") as folder:
        wordnet = WordNet.read(folder)
        assert len(wordnet._by_key) == 206_941
        assert wordnet.senses("bank", "NOUN")[0].key == "bank%1:17:01::"
        assert wordnet.gloss("bank%1:14:00::").startswith("a financial institution")
        assert len(wordnet.senses("play", "VERB")) == 35
