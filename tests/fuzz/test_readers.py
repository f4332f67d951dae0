"""Damaged input: each reader gives a result or an error of `elmo.errors`, within a bounded time and memory.

Files are damaged at random places with what readers stumble over. ELMO_FUZZ_EXAMPLES sets how many damaged copies each
reader gets: a few in `make test`, as many as there is time for in a long run (SECURITY.md).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from fuzz.bounded import bounded
from fuzz.targets import TARGETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo.errors import ElmoError
from elmo.text.sentences import split_sentences
from elmo.text.tokenizer import tokenize, words

EXAMPLES = int(os.environ.get("ELMO_FUZZ_EXAMPLES", "8"))

BYTES = [
    b"", b"\x00", b"\xff", b"\xff" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x00" * 8, b"\xed\xa0\x80", b"\n", b"\n\n",
    b"\t", b" ", b"\r", b"-1", b"0", b"1e999", b"NaN", b"99999999999", b"1" * 30, b"9" * 5000, b"[" * 3000, b"{" * 3000,
    b'{"a":' * 3000, b"(" * 3000, b'"', b"'", b"\\ud800", b"null", b"true", b"[]", b"{}", b"<", b"&#0;", b"&bomb;",
    b"O", b"*", b"(", b")", b"|", b"#begin document (a); part 000\n", b"%", b"utf-99", b"float64", b"F64", b"<f8",
    b"object",    b"\xef\xbb\xbf", "。\u2028é😀".encode(),
]  # fmt: skip
_EDIT = st.tuples(
    st.integers(0, 1 << 20),
    st.one_of(st.just(0), st.integers(0, 40), st.integers(0, 1 << 20)),
    st.one_of(st.sampled_from(BYTES), st.binary(max_size=8)),
    st.booleans(),
)
_EDITS = st.lists(_EDIT, min_size=1, max_size=4)


def damaged(data: bytes, edits: list[tuple[int, int, bytes, bool]]) -> bytes:
    """The data with parts replaced, removed or overwritten."""
    for place, length, new, keeps_size in edits:
        start = place % (len(data) + 1)
        length = len(new) if keeps_size else length % 1000
        data = data[:start] + new + data[start + length :]
    return data


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The files of each target's sample."""
    files = {}
    for name, target in TARGETS.items():
        folder = tmp_path_factory.mktemp("sample")
        target.make(folder)
        files[name] = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    return files


@pytest.mark.parametrize("name", TARGETS)
def test_a_valid_sample_is_read(name: str, tmp_path: Path) -> None:
    TARGETS[name].make(tmp_path)
    TARGETS[name].read(tmp_path)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_give_our_errors(name: str, samples: dict[str, dict[str, bytes]], data: st.DataObject) -> None:
    files = dict(samples[name])
    chosen = data.draw(st.sampled_from(sorted(files)), label="file")
    files[chosen] = damaged(files[chosen], data.draw(_EDITS, label="edits"))
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            (Path(folder) / file).write_bytes(content)
        with bounded():
            try:
                TARGETS[name].read(Path(folder))
            except ElmoError as error:
                assert str(error)


@settings(max_examples=10 * EXAMPLES, suppress_health_check=list(HealthCheck))
@given(text=st.text(st.characters(codec=None)))
def test_any_string_is_split_into_sentences_and_tokens(text: str) -> None:
    with bounded():
        for sentence in split_sentences(text):
            for name in ("ptb-like", "whitespace", "unicode"):
                assert words(sentence.text, name) == [token.text for token in tokenize(sentence.text, name)]
