"""The files of the corpora that the probes read, found in the folders that people keep them in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from elmo.analysis.files import opened_folder
from elmo.analysis.labelled_text import is_conllu, read_labelled
from elmo.analysis.pos_probe import LabelledSplits, check_splits
from elmo.analysis.sense_data import SenseSet, find_sets
from elmo.errors import InputError


def labelled_corpora(data: Sequence[Path], tags: str) -> dict[str, LabelledSplits]:
    """The three parts of a corpus, once for each kind of label: those of CoNLL-U that were asked for, or its own.

    `data`: a folder, or the three files. `tags`: upos, xpos or both.
    """
    files = three_files(data)
    kinds = ["labels"] if not is_conllu(files[0]) else ["upos", "xpos"] if tags == "both" else [tags]
    return {kind: _splits(files, kind) for kind in kinds}


def three_files(data: Sequence[Path]) -> list[Path]:
    """Train, dev and test: as they are named, or the files with those words in their names."""
    if len(data) == 3:
        return list(data)
    if len(data) != 1 or not data[0].is_dir():
        raise InputError(f"Found {len(data)} paths; expected a folder, or three files: train, dev and test.")
    files = sorted(path for path in data[0].iterdir() if path.is_file())
    # A treebank's releases hold its plain text beside it, under the same names.
    files = [path for path in files if is_conllu(path)] or files
    found = []
    for part in ("train", "dev", "test"):
        paths = [path for path in files if part in path.name]
        if len(paths) != 1:
            raise InputError(
                f"{data[0]} holds {len(paths)} files with {part!r} in their names, expected one; "
                "name the train, dev and test files themselves."
            )
        found += paths
    return found


def sense_sets(folder: Path, stack: ExitStack) -> tuple[SenseSet, list[SenseSet]]:
    """SemCor and the evaluation sets of a folder, in the layout of Raganato's framework or packed beside each other."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; expected one with semcor.data.xml and the evaluation sets.")
    corpora = sorted(folder.rglob("semcor.data.xml*"))
    if not corpora:
        raise InputError(f"There is no semcor.data.xml (or .zst, .gz) in {folder} or the folders in it.")
    packed = sorted(folder.glob("Evaluation_Datasets.tar*"))
    unpacked = sorted(folder.rglob("Evaluation_Datasets"))
    if not packed and not unpacked:
        raise InputError(f"There is neither a folder Evaluation_Datasets in {folder} nor one packed as .tar.zst.")
    place = unpacked[0] if unpacked else stack.enter_context(opened_folder(packed[0]))
    # ALL repeats the five sets, whose sum we make ourselves.
    evaluation = [each for each in find_sets(place) if each.name != "ALL"]
    if not evaluation:
        raise InputError(
            f"{unpacked[0] if unpacked else packed[0]} holds the set ALL alone; expected the sets that it is made of, "
            "such as senseval2."
        )
    return SenseSet.open(corpora[0]), evaluation


def _splits(files: Sequence[Path], kind: str) -> LabelledSplits:
    tags = kind if kind in ("upos", "xpos") else "upos"
    splits = LabelledSplits(*(read_labelled(path, tags=tags) for path in files))
    check_splits(splits)
    return splits
