"""Static word vectors from plain text with gensim's skip-gram: a fair baseline for ELMo, trained on the same text.

train_vectors(["lm.txt"], Path("vectors.txt"))      # writes a word2vec text file, which the tasks read
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from elmo.errors import InputError, needs
from elmo.settings import Settings, setting
from elmo.storage.atomic import atomic_file, writing
from elmo.storage.digest import content_digest, json_digest
from elmo.storage.locks import locked
from elmo.text.inputs import read_sentences
from elmo.text.inputs.files import find_sources


@dataclass(frozen=True)
class VectorSettings(Settings):
    """How the vectors are learned."""

    dim: int = setting(100, "The width of a vector.", at_least=1)
    min_count: int = setting(5, "Rarer words get no vector.", at_least=1)
    window: int = setting(5, "The number of words on each side that a word predicts.", at_least=1)
    epochs: int = setting(5, "Passes over the text.", at_least=1)
    threads: int = setting(2, "CPU threads; only one thread is reproducible.", at_least=1)
    seed: int = 0


@dataclass(frozen=True)
class _Corpus:
    """Sentences; the files are read again in every epoch."""

    inputs: Sequence[str]
    tokenizer: str | None

    def __iter__(self) -> Iterator[list[str]]:
        format = "tokens" if self.tokenizer is None else "lines"
        for sentence in read_sentences(list(self.inputs), format=format, tokenizer=self.tokenizer or "whitespace"):
            if sentence.tokens:
                yield sentence.tokens


def cached_vectors(
    inputs: Sequence[str], folder: Path, *, settings: VectorSettings, say: Callable[[str], None] = lambda line: None
) -> Path:
    """The file of these texts' vectors in a folder; the vectors are learned if it does not exist."""
    texts = [source.path for source in find_sources(list(inputs)) if source.path is not None]
    key = {"kind": "vectors", "texts": [content_digest(text) for text in texts], "settings": asdict(settings)}
    path = folder / f"vectors-{json_digest(key)}.txt"
    # The file is written atomically: if it exists, it is complete. Several processes may need it: one learns them.
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(path):
        if not path.exists():
            say("learning static word vectors")
            train_vectors([str(text) for text in texts], path, settings=settings, say=say)
    return path


def train_vectors(
    inputs: Sequence[str],
    output: Path,
    *,
    settings: VectorSettings | None = None,
    tokenizer: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Learn vectors from files with one sentence per line, and write them; returns their number.

    Without a tokenizer the lines must be tokenized, like a biLM's training text.
    """
    with needs("gensim", extra="gensim"):
        from gensim.models import Word2Vec
    settings = settings or VectorSettings()
    if any(source.path is None for source in find_sources(list(inputs))):
        raise InputError("Found standard input; expected files, because vectors are learned in several passes.")
    with writing(output):  # an error before the training, not after it
        output.parent.mkdir(parents=True, exist_ok=True)
    corpus = _Corpus(inputs, tokenizer)
    model = Word2Vec(
        vector_size=settings.dim,
        min_count=settings.min_count,
        window=settings.window,
        workers=settings.threads,
        seed=settings.seed,
        sg=1,
    )
    model.build_vocab(corpus)
    if not model.wv.key_to_index:
        raise InputError(
            f"Found no word {settings.min_count} times in {', '.join(inputs)}. Use more text, or lower --min-count."
        )
    say(f"{len(model.wv):,} words, {model.corpus_total_words:,} tokens, {settings.epochs} epochs")
    model.train(corpus, total_examples=model.corpus_count, epochs=settings.epochs)
    with atomic_file(output) as partial:
        model.wv.save_word2vec_format(str(partial), binary=False)
    return len(model.wv)
