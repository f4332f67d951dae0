"""A task of your own: parts of speech, from CoNLL-U files, with and without ELMo.

python examples/tasks/parts_of_speech/task.py train.conllu dev.conllu runs/pos

The class declares everything about the task. Put into src/elmo/tasks, this folder is all that `elmo task`, `elmo paper
tasks` and the page of `elmo serve` need.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import elmo
from elmo.settings import read_settings, setting
from elmo.tasks.job import DataFiles, TaskJob, run
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.text_batches import TextBatch, TextIndexer
from elmo.tasks.reading import column_blocks
from elmo.tasks.scores import accuracy
from elmo.tasks.task import Drawing, Inventory, Purpose, Task, TaskModel, TaskSettings, require_known


@dataclass(frozen=True)
class TaggedWords:
    tokens: tuple[str, ...]
    tags: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class TagBatch:
    text: TextBatch
    tags: Tensor


@dataclass(frozen=True)
class TaggingSettings(TaskSettings):
    hidden_dim: int = setting(50, "Width of each direction of the biLSTM.", at_least=1)


class Tagger(TaskModel):
    def __init__(self, text: TextInput, hidden_dim: int, num_tags: int) -> None:
        super().__init__()
        self.text = text
        self.encoder = BidirectionalRnn(text.input_dim, hidden_dim)
        self.score = nn.Linear(text.beside_dim(self.encoder.output_dim), num_tags)

    def scores(self, text: TextBatch) -> Tensor:
        vectors = self.text(text)
        return self.score(vectors.beside(self.encoder(vectors.input, text.mask)))

    def loss(self, batch: TagBatch) -> Tensor:
        mask = batch.text.mask
        return nn.functional.cross_entropy(self.scores(batch.text)[mask], batch.tags[mask])

    def predict(self, batch: TagBatch) -> list[list[int]]:
        best = self.scores(batch.text).argmax(dim=-1)
        return [row[mask].tolist() for row, mask in zip(best, batch.text.mask, strict=True)]


class PartsOfSpeech(Task[TaggedWords, list[int], TaggingSettings]):
    name = "parts_of_speech"
    headline = "accuracy"
    settings_type = TaggingSettings
    input_format = "one tokenized sentence a line"
    example = "Birds sing loudly"
    drawing = Drawing("tags", "tags")

    def read(self, path: Path | str, settings: TaggingSettings, purpose: Purpose = "train") -> list[TaggedWords]:
        sentences = []
        for block in column_blocks(path, is_comment=lambda text: text.startswith("#")):
            rows = [row for row in block if row.fields[0].isdigit()]
            words, tags = (tuple(row.fields[column] for row in rows) for column in (1, 3))
            sentences.append(TaggedWords(words, tags, block[0].line))
        return sentences

    def parse(self, text: str, settings: TaggingSettings, inventory: Inventory) -> list[TaggedWords]:
        return [TaggedWords(tuple(line.split())) for line in text.split("\n") if line.strip()]

    def inventory(self, examples: Sequence[TaggedWords], settings: TaggingSettings) -> Inventory:
        return {"tags": tuple(sorted({tag for example in examples for tag in example.tags}))}

    def model(self, settings: TaggingSettings, inventory: Inventory, text: TextInput) -> Tagger:
        self.tags = inventory["tags"]
        return Tagger(text, settings.hidden_dim, len(self.tags))

    def collate(self, examples: Sequence[TaggedWords], indexer: TextIndexer, inventory: Inventory) -> TagBatch:
        text = indexer.batch([example.tokens for example in examples])
        tags = torch.zeros(text.mask.shape, dtype=torch.long)
        for row, example in zip(tags, examples, strict=True):
            row[: len(example.tags)] = torch.tensor([self.tags.index(tag) for tag in example.tags])
        return TagBatch(text, tags)

    def score(self, examples: Sequence[TaggedWords], predictions: Sequence[list[int]]) -> dict[str, float]:
        gold = [tag for example in examples for tag in example.tags]
        return {"accuracy": accuracy(gold, [self.tags[tag] for row in predictions for tag in row])}

    def check(self, path: Path | str, examples: Sequence[TaggedWords], inventory: Inventory) -> None:
        for example in examples:
            for tag in example.tags:
                require_known(path, example.line, tag, inventory["tags"])

    def show(self, example: TaggedWords, prediction: list[int]) -> str:
        return " ".join(f"{word}_{self.tags[tag]}" for word, tag in zip(example.tokens, prediction, strict=True))

    def record(self, example: TaggedWords, prediction: list[int]) -> dict[str, Any]:
        return {"tokens": list(example.tokens), "tags": [self.tags[tag] for tag in prediction]}


if __name__ == "__main__":
    train_file, dev_file, folder = sys.argv[1:]
    settings = read_settings(TaggingSettings, "quick")
    for arm, bilm in (("baseline", None), ("elmo", elmo.load())):
        job = TaskJob(PartsOfSpeech(), settings, DataFiles(train_file, dev_file), Path(folder) / arm)
        print(arm, run(job, bilm=bilm)["dev"])
