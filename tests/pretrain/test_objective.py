"""A batch through the biLM: the same model as at inference, in the ids of the vocabulary."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.bilm.config import BiLMConfig, LstmConfig, WordEmbeddingConfig
from elmo.bilm.initialise import initialise
from elmo.bilm.model import BiLMState
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.pretrain.batches import make_batches, sentence_batch, sentence_spans
from elmo.pretrain.build_corpus import open_or_build
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.objective import BatchEncoder, run_bilm
from elmo.pretrain.settings import DataSettings, Source
from elmo.text.vocabulary import Vocabulary


def test_words_beyond_the_vocabulary_keep_their_spelling(
    corpus: Corpus, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    bilm = make_bilm()
    num_words = 8
    batch = make_batches(corpus, DataSettings(batching="streams", batch_size=6, unroll_steps=9), seed=0).read()
    inputs = BatchEncoder(corpus, bilm, num_words).encode(batch)
    words = corpus.words()
    assert bilm.config.characters is not None and inputs.words.characters is not None
    for lines, direction in zip((batch.forward, batch.backward), inputs.directions, strict=True):
        spelt = inputs.words.characters[direction.positions]
        for place in np.ndindex(*lines.inputs.shape):
            assert spelt[place].tolist() == bilm.config.characters.encode_word(words[lines.inputs[place]])
        expected = [word if word < num_words else 2 for word in lines.targets.ravel()]
        assert direction.targets.tolist() == expected
    assert len(inputs.words) == len(np.unique([batch.forward.inputs, batch.backward.inputs]))


def test_training_reads_sentences_as_inference_does(corpus: Corpus, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    bilm = make_bilm()
    spans = sentence_spans(corpus, np.arange(3, 8))
    inputs = BatchEncoder(corpus, bilm, 20).encode(sentence_batch(corpus, spans))
    words = corpus.words()
    texts = [[words[word] for word in corpus.tokens[start:end]] for start, end in spans]
    with torch.no_grad():
        hidden = run_bilm(bilm, inputs)
        layers = bilm(bilm.indexer.batch(texts, markers=False), keep_markers=True).layers[-1]
    forward, backward = layers.chunk(2, dim=-1)
    first = 0
    for row, text in enumerate(texts):
        count = len(text) - 1
        torch.testing.assert_close(hidden.forward[first : first + count], forward[row, :count])
        # Backward predicts from a token what stands before it; training reads from the sentence's end.
        torch.testing.assert_close(hidden.backward[first : first + count], backward[row, 1 : count + 1].flip(0))
        first += count


def test_the_state_is_carried(corpus: Corpus, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    bilm = make_bilm()
    encoder = BatchEncoder(corpus, bilm, 20)
    whole = make_batches(corpus, DataSettings(batching="streams", batch_size=3, unroll_steps=10), seed=0).read()
    halves = make_batches(corpus, DataSettings(batching="streams", batch_size=3, unroll_steps=5), seed=0)
    with torch.no_grad():
        expected = run_bilm(bilm, encoder.encode(whole)).forward.view(3, 10, -1)
        state: BiLMState | None = None
        for part in (slice(0, 5), slice(5, 10)):
            hidden = run_bilm(bilm, encoder.encode(halves.read()), state=state)
            state = hidden.state
            # Rows take sentences one after another, so only the first row's text is the same in both cuts.
            torch.testing.assert_close(hidden.forward.view(3, 5, -1)[0], expected[0, part])


def test_dropout_is_new_for_every_token(corpus: Corpus, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    bilm = make_bilm()
    inputs = BatchEncoder(corpus, bilm, 20).encode(sentence_batch(corpus, sentence_spans(corpus, np.arange(20))))
    torch.manual_seed(5)
    first = run_bilm(bilm, inputs, dropout=0.5).forward
    torch.manual_seed(5)
    assert torch.equal(first, run_bilm(bilm, inputs, dropout=0.5).forward)
    zeros = (first == 0).double()
    assert 0.4 < float(zeros.mean()) < 0.6
    assert float(zeros.mean(dim=0).std()) < 0.2 and not torch.equal(zeros[0], zeros[1])


@pytest.mark.parametrize("dim", [6])
def test_word_ids_follow_the_vocabulary(corpus: Corpus, dim: int) -> None:
    bilm = PretrainedBiLM(
        BiLMConfig(lstm=LstmConfig(cell_dim=8, projection_dim=dim), word_embedding=WordEmbeddingConfig(10, dim))
    )
    initialise(bilm)
    batch = sentence_batch(corpus, sentence_spans(corpus, np.arange(30)))
    inputs = BatchEncoder(corpus, bilm, 10).encode(batch)
    assert inputs.words.characters is None and inputs.words.word_ids is not None
    expected = np.where(batch.forward.inputs < 10, batch.forward.inputs, 2) + 1
    assert inputs.words.word_ids[inputs.directions[0].positions].tolist() == expected.tolist()


def test_words_are_cut_before_they_are_looked_up_as_at_inference(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the theatre the cat catalogue the dogs\n", encoding="utf-8")
    data = DataSettings(train=(Source("text", (str(tmp_path / "text.txt"),)),))
    corpus = open_or_build(tmp_path / "corpus", data)
    table = WordEmbeddingConfig(num_words=6, dim=6, max_characters=3)
    bilm = PretrainedBiLM(BiLMConfig(lstm=LstmConfig(cell_dim=8, projection_dim=6), word_embedding=table))
    words = corpus.words()
    bilm.vocabulary = Vocabulary(tuple(words[:6]))
    assert bilm.vocabulary.words[3:] == ("the", "cat", "catalogue")
    batch = sentence_batch(corpus, sentence_spans(corpus, np.arange(1)))
    inputs = BatchEncoder(corpus, bilm, 6).encode(batch)
    read = [words[word] for word in batch.forward.inputs[0]]
    expected = bilm.indexer.word_table(read).word_ids
    assert inputs.words.word_ids is not None and expected is not None
    assert inputs.words.word_ids[inputs.directions[0].positions[0]].tolist() == expected.tolist()
    # The softmax has whole words.
    targets = bilm.vocabulary.ids(words[word] for word in batch.forward.targets[0])
    assert inputs.directions[0].targets.tolist() == targets
