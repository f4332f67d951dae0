"""Raganato's XML: words, targets, keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.explore.sense_data import (
    SenseSentence,
    SenseSet,
    SenseTarget,
    find_sets,
    made_alike,
    read_gold,
    read_sentences,
    with_full_stop,
)


def test_a_multiword_target_covers_its_words(senses_folder: Path) -> None:
    path = senses_folder / "Evaluation_Datasets/semeval2007/semeval2007.data.xml"
    first, second = read_sentences(path)
    assert first.words == ("the", "dry", "river", "bed", "lay", "below")
    assert first.targets == (SenseTarget("d0.s0.t0", "river_bed", "NOUN", 2, 4),)
    assert second.words == ("a", "steep", "hill")


def test_treebank_escapes_become_plain(tmp_path: Path) -> None:
    path = tmp_path / "x.data.xml"
    path.write_text(
        "<corpus><text><sentence><wf>``</wf><wf>-LRB-</wf><wf>A&amp;P</wf><wf>''</wf></sentence></text></corpus>"
    )
    (sentence,) = read_sentences(path)
    assert sentence.words == ('"', "(", "A&P", '"')


def test_several_right_keys(senses_folder: Path) -> None:
    gold = read_gold(senses_folder / "Evaluation_Datasets/semeval2007/semeval2007.gold.key.txt")
    assert gold["d0.s1.t0"] == ("steep%5:00:00:sharp:00", "steep%3:00:00::")


def test_the_sets_of_a_folder_stand_in_the_published_order(senses_folder: Path) -> None:
    names = [each.name for each in find_sets(senses_folder / "Evaluation_Datasets")]
    assert names == ["senseval2", "semeval2007", "ALL"]


def test_an_instance_without_a_key_is_refused(senses_folder: Path) -> None:
    (senses_folder / "semcor.gold.key.txt").write_text("d0.s0.t0 bank%1:17:00::\n")
    with pytest.raises(InputError, match=r"d0\.s1\.t0 has no line in semcor\.gold\.key\.txt"):
        list(SenseSet.open(senses_folder / "semcor.data.xml").sentences())


@pytest.mark.parametrize("key", ["bank", "bank%", "bank%9:17:00::"])
def test_a_key_that_is_no_sense_key_is_refused(senses_folder: Path, key: str) -> None:
    gold = senses_folder / "semcor.gold.key.txt"
    gold.write_text(f"d0.s0.t0 {key}\n")
    with pytest.raises(InputError, match="expected an instance id and its sense keys"):
        read_gold(gold)


def test_broken_files_are_refused(senses_folder: Path) -> None:
    data = senses_folder / "semcor.data.xml"
    data.write_text(data.read_text()[:-40])
    with pytest.raises(InputError, match="not complete XML"):
        list(read_sentences(data))
    (senses_folder / "semcor.gold.key.txt").write_text("d0.s0.t0\n")
    with pytest.raises(InputError, match=r"line 1: found 'd0\.s0\.t0'"):
        SenseSet.open(data)
    with pytest.raises(InputError, match="not a sense-tagged set"):
        SenseSet.open(senses_folder / "missing.data.xml")


def test_punctuation_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.data.xml"
    path.write_text(
        "<corpus><text><sentence><wf>``</wf><wf>Well</wf><wf>,</wf>"
        "<instance id='t0' lemma='go_on' pos='VERB'>go , on</instance><wf>!</wf></sentence></text></corpus>"
    )
    (tmp_path / "x.gold.key.txt").write_text("t0 go_on%2:42:00::\n")
    with_it = SenseSet.open(path)
    assert with_it.has_punctuation()
    (sentence,) = replace(with_it, punctuation=False).sentences()
    assert sentence.words == ("Well", "go", ",", "on")
    assert sentence.targets == (SenseTarget("t0", "go_on", "VERB", 1, 4),)


def test_the_real_corpora(shared: Path) -> None:
    semcor = SenseSet.open(shared / "data/wsd/semcor.data.xml.zst")
    sentences = targets = 0
    for sentence in semcor.sentences():
        sentences += 1
        targets += len(sentence.targets)
    assert (sentences, targets) == (37_168, 226_226)
    assert not semcor.has_punctuation()


def test_sentences_without_a_final_mark_get_a_full_stop() -> None:
    target = SenseTarget("t", "bank", "NOUN", 1, 2)
    assert with_full_stop(SenseSentence(("the", "bank"), (target,))) == SenseSentence(("the", "bank", "."), (target,))
    asked = SenseSentence(("the", "bank", "?"), (target,))
    assert with_full_stop(asked) is asked


def test_all_sets_are_read_alike(senses_folder: Path) -> None:
    """SemCor of the example has no punctuation, so the evaluation loses its own, and both get their full stops."""
    train = SenseSet.open(senses_folder / "semcor.data.xml")
    sets = made_alike(train, [each for each in find_sets(senses_folder / "Evaluation_Datasets") if each.name != "ALL"])
    assert [each.punctuation for each in sets[1:]] == [train.has_punctuation()] * (len(sets) - 1)
    for each in sets:
        assert all(sentence.words[-1] == "." for sentence in each.sentences())


@pytest.mark.parametrize("attribute", ['id="t0"', 'lemma="bank"', 'pos="NOUN"'])
def test_an_instance_that_lacks_something_is_named_by_its_sentence(tmp_path: Path, attribute: str) -> None:
    instance = '<instance id="t0" lemma="bank" pos="NOUN">bank</instance>'.replace(attribute, "")
    path = tmp_path / "x.data.xml"
    path.write_text(f'<corpus><text><sentence id="d0.s7">{instance}</sentence></text></corpus>')
    with pytest.raises(InputError, match=r"x\.data\.xml, sentence d0\.s7: found the instance 'bank' with .* expected"):
        list(read_sentences(path))
