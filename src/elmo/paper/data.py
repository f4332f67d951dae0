"""The folder of a report's data, and errors that name missing files.

the files of each task's `paper` row                      the tasks
ud/EWT/*{train,dev,test}*.conllu                          parts of speech
wsd/semcor.data.xml, its keys, Evaluation_Datasets        word senses, neighbours
wordnet-3.0/dict                                          word senses
lm/**/train*.txt                                          static vectors, if none are given

Every file may be compressed (.zst, .gz, .xz, .bz2), Evaluation_Datasets and dict packed as .tar or .tar.zst.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elmo.errors import InputError
from elmo.explore.files import find_file
from elmo.paper.labelled_text import three_files
from elmo.tasks.catalog import find_task
from elmo.tasks.job import DataFiles


class MissingDataError(InputError):
    """A part of the data is missing; the report leaves out the sections that need it."""


@dataclass(frozen=True)
class DataFolder:
    """The folder with all data."""

    path: Path

    def task(self, name: str) -> DataFiles:
        """A task's three files."""
        paper = find_task(name).paper
        if paper is None:
            raise MissingDataError("The report has no data for it: use `elmo paper tasks` with your own.")
        parts = [each.partition(":") for each in paper.paths()]
        return DataFiles(*(f"{self._file(file)}{colon}{part}" for file, colon, part in parts))

    def files(self, *names: str) -> DataFiles:
        """Files of the user, by their paths in this folder."""
        return DataFiles(*(str(self.path / name) for name in names))

    def treebank(self) -> list[Path]:
        """The three parts of the part-of-speech corpus."""
        folder = self.path / "ud" / "EWT"
        if not folder.is_dir():
            raise self._missing("ud/EWT/", "a treebank's train, dev and test files (.conllu)")
        return three_files([folder])

    def senses(self) -> Path:
        """The folder of SemCor and the evaluation sets."""
        return self._file("wsd/semcor.data.xml").parent

    def wordnet(self) -> Path:
        """WordNet's database, unpacked or packed."""
        folder = self.path / "wordnet-3.0"
        for name in ("dict", "dict.tar.zst", "dict.tar.gz", "dict.tar"):
            if (folder / name).exists():
                return folder / name
        raise self._missing("wordnet-3.0/dict", "WordNet 3.0's database (or dict.tar.zst)")

    def texts(self, sources: tuple[str, ...] = ()) -> list[Path]:
        """Tokenized text for static vectors: of these folders in lm/, or of all."""
        found = sorted(path for path in self.path.glob("lm/**/train*.txt*") if path.is_file())
        chosen = [path for path in found if path.parent.name in sources]
        if not found:
            raise self._missing("lm/**/train*.txt", "tokenized text, one sentence per line")
        return chosen or found

    def _file(self, name: str) -> Path:
        place = self.path / name
        found = find_file(place.parent, place.name)
        if found is None:
            raise self._missing(name, "a file, plain or compressed")
        return found

    def _missing(self, name: str, what: str) -> MissingDataError:
        return MissingDataError(f"There is no {name} in {self.path}; expected {what}.")
