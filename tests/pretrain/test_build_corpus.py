"""Text -> ids: what is stored, what is skipped, when it is built again."""

import gzip
import lzma
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from elmo.errors import InputError
from elmo.pretrain.build_corpus import open_or_build
from elmo.pretrain.corpus import INDEX_FILE, SPECIALS, Corpus
from elmo.pretrain.settings import DataSettings, Source
from elmo.text.characters import CharacterIds, CharacterScheme
from elmo.text.vocabulary import Vocabulary


def write(path: Path, text: str) -> Source:
    path.write_text(text, encoding="utf-8")
    return Source(path.stem, (str(path),))


def texts(corpus: Corpus, role: str) -> list[str]:
    """The sentences as they were, read back from the ids."""
    words = corpus.words()
    found = []
    for source in corpus.role(role):
        for index in range(source.first_sentence, source.first_sentence + source.num_sentences):
            start, end = corpus.offsets[index : index + 2]
            ids = corpus.tokens[start:end]
            assert (words[ids[0]], words[ids[-1]]) == ("<S>", "</S>")
            found.append(" ".join(words[word] for word in ids[1:-1]))
    return found


def test_ids_decode_to_the_text(tmp_path: Path) -> None:
    train = write(tmp_path / "a.txt", "b a b\n\n  \nc b ü\n")
    heldout = write(tmp_path / "h.txt", "b new\n")
    said: list[str] = []
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(train,), heldout=(heldout,)), say=said.append)
    assert corpus.words() == [*SPECIALS, "b", "a", "c", "ü", "new"]
    assert corpus.counts.tolist() == [0, 0, 0, 3, 1, 1, 1, 0]
    assert texts(corpus, "train") == ["b a b", "c b ü"]
    assert texts(corpus, "heldout") == ["b new"]
    assert [(source.num_words, source.num_tokens) for source in corpus.sources] == [(6, 8), (2, 3)]
    assert "skipped 0 empty files and 2 empty lines" in said[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "Ink is wet.", "n": 1}\n{"text": "It dries.", "n": 2}\n'),
        ("b.jsonl", '["Ink", "is", "wet", "."]\n["It", "dries\\n."]\n'),
        ("c.csv", "n,text\n1,Ink is wet.\n2,It dries.\n"),
        ("d.conllu", "1\tInk\n2\tis\n3\twet\n4\t.\n\n1\tIt\n2\tdries\n3\t.\n"),
        ("e.xml", "<mediawiki><page><ns>0</ns><text>Ink is [[wet]]. It dries.</text></page></mediawiki>"),
    ],
)
def test_the_format_goes_by_the_name(name: str, content: str, tmp_path: Path) -> None:
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(write(tmp_path / name, content),)))
    assert texts(corpus, "train") == ["Ink is wet .", "It dries ."]


def test_skipped_pages_are_reported(tmp_path: Path) -> None:
    page = "<page><ns>0</ns><text>{}</text></page>"
    source = write(tmp_path / "a.xml", f"<mediawiki>{page.format('Good.')}{page.format('Bad {{ one.')}</mediawiki>")
    said: list[str] = []
    open_or_build(tmp_path / "corpus", DataSettings(train=(source,)), say=said.append)
    assert said[0] == "corpus: train a: 2 words, 2 types; skipped 1 pages with broken markup"


def test_the_vocabulary_is_a_prefix_of_the_lexicon(tmp_path: Path) -> None:
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(write(tmp_path / "a.txt", "a a a b b c c d\n"),)))
    assert corpus.words(corpus.vocabulary_size(5, 1)) == [*SPECIALS, "a", "b"]
    assert corpus.words(corpus.vocabulary_size(100, 2)) == [*SPECIALS, "a", "b", "c"]


def test_a_given_vocabulary_comes_first_and_stays_whole(tmp_path: Path) -> None:
    given = Vocabulary(("<S>", "</S>", "<UNK>", "zebra", "a"))
    source = write(tmp_path / "a.txt", "b b a\n")
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(source,)), vocabulary=given)
    assert corpus.words() == [*given.words, "b"]
    assert corpus.vocabulary_size(4, 3) == 5


def test_word_counts_are_weighted_by_source(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.txt", "a a\n"), write(tmp_path / "b.txt", "b\n")
    second = Source("b", second.files, weight=3.0)
    corpus = open_or_build(
        tmp_path / "corpus",
        DataSettings(
            train=(
                first,
                second,
            )
        ),
    )
    assert corpus.words()[3:] == ["b", "a"]


def test_compressed_files_and_globs_are_one_text(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    parts = ["a b\n", "c d\n", "e f\n", "g h\n"]
    (tmp_path / "p0.txt").write_text(parts[0], encoding="utf-8")
    (tmp_path / "p1.txt.gz").write_bytes(gzip.compress(parts[1].encode()))
    (tmp_path / "p2.txt.xz").write_bytes(lzma.compress(parts[2].encode()))
    (tmp_path / "p3.txt.zst").write_bytes(zstandard.ZstdCompressor().compress(parts[3].encode()))
    (tmp_path / "p4.txt").write_text("", encoding="utf-8")
    said: list[str] = []
    source = Source("parts", (str(tmp_path / "p*"),))
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(source,)), say=said.append)
    assert texts(corpus, "train") == ["a b", "c d", "e f", "g h"]
    assert "skipped 1 empty files" in said[0]


def test_a_corpus_is_built_once(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a b\n")
    first = open_or_build(tmp_path / "corpus", DataSettings(train=(source,)))
    made = (tmp_path / "corpus" / "tokens.u32").stat().st_mtime_ns
    os.utime(tmp_path / "a.txt", (1, 1))  # a copy of the same text is the same text
    again = open_or_build(tmp_path / "corpus", DataSettings(train=(source,)))
    assert (tmp_path / "corpus" / "tokens.u32").stat().st_mtime_ns == made
    assert again.fingerprint == first.fingerprint


def test_changed_text_is_refused_and_the_old_ids_stay(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a b\n")
    open_or_build(tmp_path / "corpus", DataSettings(train=(source,)))
    write(tmp_path / "a.txt", "a c\n")
    with pytest.raises(InputError, match=r"a\.txt has changed"):
        open_or_build(tmp_path / "corpus", DataSettings(train=(source,)))
    with pytest.raises(InputError, match="its tokenizer was ptb-like"):
        open_or_build(tmp_path / "corpus", DataSettings(train=(source,)), tokenizer="whitespace")
    assert texts(Corpus(tmp_path / "corpus"), "train") == ["a b"]


def test_a_build_that_was_interrupted_is_made_again(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a b\n")
    open_or_build(tmp_path / "corpus", DataSettings(train=(source,)))
    (tmp_path / "corpus" / "corpus.json").unlink()
    (tmp_path / "corpus" / "tokens.u32").write_bytes(b"rubbish!")
    assert texts(open_or_build(tmp_path / "corpus", DataSettings(train=(source,))), "train") == ["a b"]


def test_concurrent_builds_wait_for_each_other(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a b c\n" * 20_000)
    said: list[str] = []

    def build() -> Corpus:
        return open_or_build(tmp_path / "corpus", DataSettings(train=(source,)), say=said.append)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(build), pool.submit(build)
        assert first.result().fingerprint == second.result().fingerprint
    assert sorted(line.split(",")[0] for line in said) == [
        "corpus: train a: 60",
        f"corpus: using {tmp_path / 'corpus'}",
    ]


def test_the_same_names_from_fewer_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one, other = write(tmp_path / "x.txt", "a b\n"), write(tmp_path / "b" / "x.txt", "a b\n")
    open_or_build(tmp_path / "corpus", DataSettings(train=(one,), heldout=(one,)))
    with pytest.raises(InputError, match="it had 1 files, now there are 2"):
        open_or_build(tmp_path / "corpus", DataSettings(train=(one,), heldout=(other,)))


def test_every_nth_line_can_be_held_out(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a\nb\nc\nd\ne\n")
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(source,), hold_out=2))
    assert texts(corpus, "train") == ["a", "c", "e"]
    assert texts(corpus, "heldout") == ["b", "d"]


def test_lines_are_held_out_through_all_files_and_empty_lines_do_not_count(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "a\n\nb\n\n")
    write(tmp_path / "b.txt", "\nc\n\nd")
    corpus = open_or_build(
        tmp_path / "corpus", DataSettings(train=(Source("both", (str(tmp_path / "*.txt"),)),), hold_out=3)
    )
    assert (texts(corpus, "train"), texts(corpus, "heldout")) == (["a", "b", "d"], ["c"])


def test_too_few_lines_to_hold_one_out(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a\nb\n")
    with pytest.raises(InputError, match=r"data\.hold_out is 20, but .*a\.txt has fewer than 20 lines.*--heldout"):
        open_or_build(tmp_path / "corpus", DataSettings(train=(source,), hold_out=20))


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "no words in train a"), (b"\n\n", "no words"), (b"caf\xe9\n", "not UTF-8")]
)
def test_text_without_words_or_in_another_encoding(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_or_build(tmp_path / "corpus", DataSettings(train=(Source("a", (str(tmp_path / "a.txt"),)),)))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        open_or_build(tmp_path / "corpus", DataSettings(train=(Source("a", (str(tmp_path / "nowhere.txt"),)),)))


def test_spelling_is_that_of_the_scheme(tmp_path: Path) -> None:
    corpus = open_or_build(
        tmp_path / "corpus", DataSettings(train=(write(tmp_path / "a.txt", "cat Ünïcode " + "x" * 80 + "\n"),))
    )
    for scheme in (CharacterScheme.utf8(), CharacterScheme.codepoints(corpus.characters(), 12)):
        table = corpus.spelling(scheme)
        assert [list(row) for row in table] == [scheme.encode_word(word) for word in corpus.words()]


def test_spelling_with_more_ids_than_16_bits_have(tmp_path: Path) -> None:
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(write(tmp_path / "a.txt", "a b\n"),)))
    ids = CharacterIds(
        padding=1, begin_word=2, end_word=3, begin_sentence=4, end_sentence=5, unknown=6, characters=(("a", 70_000),)
    )
    table = corpus.spelling(CharacterScheme("codepoints", 5, ids))
    assert table[corpus.words().index("a")].tolist() == [2, 70_000, 3, 1, 1]


def test_lone_surrogates_are_left_out(tmp_path: Path) -> None:
    lines = '{"text": "Ink \\ud83d is wet."}\n["dry\\udc00", "\\ud83d", "ink"]\n"\\ud83d"\n'
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(write(tmp_path / "a.jsonl", lines),)))
    assert texts(corpus, "train") == ["Ink is wet .", "dry ink"]


def test_characters_by_falling_frequency(tmp_path: Path) -> None:
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(write(tmp_path / "a.txt", "aab é\n"),)))
    assert corpus.characters() == "abé"


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    line = " ".join(f"w{index}" for index in range(40)) + "\n"
    peaks = []
    for factor in (1, 12):
        source = write(tmp_path / f"{factor}.txt", line * 3_000 * factor)
        tracemalloc.start()
        corpus = open_or_build(tmp_path / f"corpus{factor}", DataSettings(train=(source,)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(corpus.tokens) == 42 * 3_000 * factor
    # The buffer fills up in the larger one (4 MB and its copy); 1.4 million ids alone would be 5.8 MB, as text 9.
    assert peaks[1] - peaks[0] < 9_000_000
    assert isinstance(corpus.tokens, np.memmap)


RAW = "He didn't pay, she said. The money (all of it) was gone.\n" * 50


def test_lines_are_split_by_the_models_tokenizer_unless_they_are_tokenized(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "He didn't pay.\n")
    split = open_or_build(tmp_path / "split", DataSettings(train=(source,)), tokenizer="ptb-like")
    as_it_is = open_or_build(tmp_path / "as-it-is", DataSettings(train=(source,), tokenized=True), tokenizer="ptb-like")
    assert texts(split, "train") == ["He did n't pay ."]
    assert texts(as_it_is, "train") == ["He didn't pay."]


@pytest.mark.parametrize(
    ("text", "tokenized", "warning"),
    [
        (
            RAW,
            True,
            "does not look tokenized by the model's tokenizer: ptb-like would split 50.0% of its words further",
        ),
        ("D' ailleurs , l' homme qu' il voit .\n" * 50, False, "looks tokenized already, by other rules"),
        (RAW, False, None),
        ("He did n't pay , she said .\n" * 50, True, None),
        ("He did n't pay , she said .\n" * 50, False, None),
    ],
)
def test_text_that_contradicts_the_settings_is_told_before_training(
    tmp_path: Path, text: str, tokenized: bool, warning: str | None
) -> None:
    said: list[str] = []
    data = DataSettings(train=(write(tmp_path / "a.txt", text),), tokenized=tokenized)
    open_or_build(tmp_path / "corpus", data, tokenizer="ptb-like", say=said.append)
    assert ("warning" in said[0]) == (warning is not None)
    assert warning is None or warning in said[0]


def test_a_table_of_several_columns_gets_advice_that_fits(tmp_path: Path) -> None:
    """Pre-training has no option that chooses a column."""
    source = write(tmp_path / "a.csv", "n,body\n1,A cat.\n")
    with pytest.raises(InputError, match=r"several columns: n, body\. Rename the one with the text to text"):
        open_or_build(tmp_path / "corpus", DataSettings(train=(source,)))


def test_an_index_that_another_program_wrote_is_replaced(tmp_path: Path) -> None:
    data = DataSettings(train=(write(tmp_path / "a.txt", "b a b\n"),))
    (tmp_path / "corpus").mkdir()
    for other in ("[]", "{}", '{"recipe": {}}'):
        (tmp_path / "corpus" / INDEX_FILE).write_text(other, encoding="utf-8")
        assert texts(open_or_build(tmp_path / "corpus", data), "train") == ["b a b"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conllu", "1\tViệt Nam\n2\tlà\n3\t10 000\n"),
        ("a.jsonl", '["Việt Nam", "là", "", " ", " 10\\n000\\t", "\\ud83d"]\n'),
    ],
)
def test_tokens_with_inner_spaces_stay_whole(name: str, content: str, tmp_path: Path) -> None:
    """Embedding and scoring use a row's tokens unchanged too."""
    corpus = open_or_build(tmp_path / "corpus", DataSettings(train=(write(tmp_path / name, content),)))
    words = corpus.words()
    assert [words[word] for word in corpus.tokens] == ["<S>", "Việt Nam", "là", "10 000", "</S>"]
    Vocabulary(tuple(words)).save(tmp_path / "words.txt")
    assert Vocabulary.load(tmp_path / "words.txt").words == tuple(words)


def test_tokens_of_a_table_with_inner_spaces_stay_whole(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"tokens": [["Việt Nam", "là"]]}), tmp_path / "a.parquet")
    source = Source("a", (str(tmp_path / "a.parquet"),))
    assert open_or_build(tmp_path / "corpus", DataSettings(train=(source,))).words()[3:] == ["Việt Nam", "là"]


def test_a_corpus_is_used_again_with_its_own_vocabulary(tmp_path: Path) -> None:
    """A run that took its vocabulary from the text has it in its model, from which it is resumed."""
    data = DataSettings(train=(write(tmp_path / "a.txt", "a a a b b c c d\n"),))
    first = open_or_build(tmp_path / "corpus", data)
    own = Vocabulary(tuple(first.words(5)))
    assert open_or_build(tmp_path / "corpus", data, vocabulary=own).fingerprint == first.fingerprint
    for words in (("a", "c"), ("b", "a"), ("a", "b", "c", "d", "e")):
        with pytest.raises(InputError, match="its vocabulary differs"):
            open_or_build(tmp_path / "corpus", data, vocabulary=Vocabulary((*SPECIALS, *words)))
    turned = Vocabulary(own.words, begin_sentence="</S>", end_sentence="<S>")
    with pytest.raises(InputError, match="its special tokens are <S> </S> <UNK>, now they are </S> <S> <UNK>"):
        open_or_build(tmp_path / "corpus", data, vocabulary=turned)


def test_sentences_are_marked_with_the_models_markers(tmp_path: Path) -> None:
    data = DataSettings(train=(write(tmp_path / "a.txt", "b a b\n"),))
    plain = open_or_build(tmp_path / "plain", data)
    marked = open_or_build(tmp_path / "marked", data, markers=("<bos>", "<eos>"))
    assert marked.words() == ["<bos>", "<eos>", "<UNK>", "b", "a"]
    assert marked.tokens.tolist() == plain.tokens.tolist() and marked.special_ids == (0, 1, 2)
    assert marked.fingerprint != plain.fingerprint
    assert open_or_build(tmp_path / "marked", data, markers=("<bos>", "<eos>")).fingerprint == marked.fingerprint
    for folder, markers in (("marked", ("<S>", "</S>")), ("plain", ("<bos>", "<eos>"))):
        with pytest.raises(InputError, match=r"its special tokens are .*, now they are <"):
            open_or_build(tmp_path / folder, data, markers=markers)
