"""Every reader of the package, with a small valid input to damage.

A target writes files into a folder and reads them back by the same door that users go through. The models are the
golden ones; all other samples are ours.
"""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as arrow
import torch
import zstandard
from known_encoder import KnownEncoder
from pyarrow import parquet

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.checkpoints.detect import open_checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.explore.files import opened_folder
from elmo.explore.neighbour_index import build_index
from elmo.explore.neighbours import NeighbourIndex
from elmo.explore.sense_data import SenseSet
from elmo.explore.wordnet import WordNet
from elmo.paper.labelled_text import read_labelled
from elmo.storage.json_file import read_json_object
from elmo.storage.toml import parse_value, read_toml
from elmo.tasks.coreference.data import read_documents
from elmo.tasks.entailment.data import read_pairs
from elmo.tasks.named_entities.data import read_sentences as read_entities
from elmo.tasks.question_answering.data import read_questions
from elmo.tasks.semantic_roles.data import read_propositions
from elmo.tasks.sentiment.data import read_texts
from elmo.text.characters import CharacterScheme
from elmo.text.inputs import read_sentences
from elmo.text.inputs.formats import RowOptions
from elmo.text.vocabulary import Vocabulary

_TENSORFLOW_FILES = ("model.ckpt-12.index", "model.ckpt-12.data-00000-of-00001")
GOLDEN = Path(__file__).parent.parent / "golden"


@dataclass(frozen=True)
class Target:
    """A reader and its sample."""

    make: Callable[[Path], None]
    """Writes the sample into an empty folder."""
    read: Callable[[Path], Any]
    """Reads the folder; it may raise the errors of `elmo.errors` and no others."""


def _text(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content, encoding="utf-8") and None


def _golden(model: str, *names: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        files = names or [file.name for file in (GOLDEN / model).iterdir() if file.suffix != ".npz"]
        for name in files:
            shutil.copy(GOLDEN / model / name, folder)
        if model.startswith("checkpoints/"):
            shutil.copy(GOLDEN / "checkpoints/vocab.txt", folder)

    return make


def _load(name: str, folder: Path) -> None:
    path = folder / name
    PretrainedBiLM.from_checkpoint(open_checkpoint(path), source=str(path))


def _make_native(folder: Path, storage: str = "float32") -> None:
    config = BiLMConfig(
        LstmConfig(cell_dim=4, projection_dim=3, num_layers=1),
        characters=CharacterScheme.utf8(),
        char_cnn=CharCnnConfig(character_dim=2, filters=((1, 2), (2, 2)), num_highway=1),
    )
    bilm = PretrainedBiLM(config)
    initialise(bilm, torch.Generator().manual_seed(0))
    bilm.vocabulary = Vocabulary.build(["one", "two", "three"])
    bilm.save_pretrained(folder, storage=storage)


def _make_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(GOLDEN / "allennlp/relu1" / name, name)


def _make_tar(folder: Path) -> None:
    (folder / "inside").mkdir()
    (folder / "inside/a.txt").write_text("Some text.\n" * 20, encoding="utf-8")
    shutil.make_archive(str(folder / "data"), "gztar", folder / "inside")
    shutil.rmtree(folder / "inside")


def _open_tar(folder: Path) -> None:
    with opened_folder(folder / "data.tar.gz") as opened:
        list(opened.rglob("*"))


def _make_index(folder: Path) -> None:
    build_index(KnownEncoder(), [["one", "bank"], ["two", "bank"]], folder=folder / "index", model="m")
    for file in (folder / "index").iterdir():
        file.rename(folder / file.name)
    (folder / "index").rmdir()


def _ask_index(folder: Path) -> None:
    index = NeighbourIndex(folder)
    for sentence in range(min(index.facts.num_sentences, 5)):
        index.tokens(sentence)
    index.nearest(index.vector(0, 1), 3)
    index.nearest(index.vector(0, 1), 3, word="bank", exact=True)
    index.nearest_words("bank", 2)
    index.occurrences_of("bank")


def _make_parquet(folder: Path) -> None:
    parquet.write_table(arrow.table({"text": ["One sentence.", "Another one."], "n": [1, 2]}), folder / "a.parquet")


def _compressed(compress: Callable[[bytes], bytes], name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(compress(b"A line of text.\nAnother line.\n" * 50)) and None


def _sentences(name: str, folder: Path, **options: Any) -> None:
    for _ in read_sentences(folder / name, **options):
        pass


_NER = "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP B-MISC\n\nPeter NNP I-NP B-PER\n"
_UNER = "# sent_id = 1\n1\tPeter\tB-PER\t-\tus\n2\tBlackburn\tI-PER\t-\tus\n\n1\tHe\tO\t-\tus\n"
_SRL = "bc/a 0 0 She PRP (S* - - - sp * (ARG0*) (3)\nbc/a 0 1 ran VBD *) run 01 1 sp * (V*) -\n"
_SRL_2005 = "She PRP - (A0*)\nran VBD run (V*)\n\nIt PRP - (A0*)\nrained VBD rain (V*)\n"
_COREF = (
    "#begin document (bc/a); part 000\nbc/a 0 0 She PRP * - - - Ann * (3)\nbc/a 0 1 ran VBD * - - - Ann * -\n\n"
    "bc/a 0 0 Ann NNP * - - - Ann * (3)\n#end document\n"
)
_SQUAD = json.dumps(
    {
        "data": [
            {
                "title": "T",
                "paragraphs": [
                    {
                        "context": "The bank is near the river.",
                        "qas": [
                            {
                                "id": "1",
                                "question": "Where is it?",
                                "answers": [{"text": "near the river", "answer_start": 12}],
                            }
                        ],
                    }
                ],
            }
        ]
    }
)
_SNLI = '{"sentence1": "A man runs.", "sentence2": "Someone moves.", "gold_label": "entailment"}\n'
_SICK = "sentence_A\tsentence_B\tentailment_label\tSemEval_set\nA man.\tA cat.\tNEUTRAL\tTRAIN\n"
_WIKIPEDIA = (
    '<mediawiki><siteinfo><namespaces><namespace key="6">Datei</namespace></namespaces></siteinfo><page><ns>0</ns>'
    "<revision><text>{{a|{{b}}}} '''Ink''' is [[wet|a fluid]].&lt;ref&gt;c&lt;/ref&gt; [[Datei:d|e [[f]]]]\n{|\n| g\n"
    "|}\n* h\n[http://i j] &amp;nbsp; -{k}-</text></revision></page></mediawiki>"
)
_CONLLU = "# sent_id = 1\n1\tLet\tlet\tVERB\tVB\t_\t0\troot\t_\t_\n2\tgo\tgo\tVERB\tVB\t_\t1\tx\t_\t_\n\n"
_SENSES = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<corpus lang="en"><text id="d0"><sentence id="d0.s0">'
    '<wf lemma="the" pos="DET">The</wf><instance id="d0.s0.t0" lemma="bank" pos="NOUN">bank</instance>'
    "</sentence></text></corpus>\n"
)
_WORDNET = "bank%1:14:01:: 00000000 2 20\nbank%1:17:00:: 00000010 1 25\n"
_GLOSSES = '00000000 17 n 01 bank 0 000 | the ground beside a river; "they sat on the bank"  \n'
_SETTINGS = (
    '# a comment\nseed = 3\n[model]\ndim = 1.5\nname = "x"\nfilters = [[1, 32], [2, 32]]\n[[stage]]\na.b = true\n'
)


def _make_senses(folder: Path) -> None:
    (folder / "a.data.xml").write_text(_SENSES, encoding="utf-8")
    (folder / "a.gold.key.txt").write_text("d0.s0.t0 bank%1:14:01::\n", encoding="utf-8")


def _make_wordnet(folder: Path) -> None:
    (folder / "index.sense").write_text(_WORDNET, encoding="utf-8")
    (folder / "data.noun").write_text(_GLOSSES, encoding="utf-8")


def _read_wordnet(folder: Path) -> None:
    wordnet = WordNet.read(folder)
    for key in ("bank%1:14:01::", "bank%1:17:00::"):
        if key in wordnet:
            wordnet.gloss(key)
    wordnet.senses("bank", "NOUN")


def _labelled(name: str, folder: Path) -> None:
    for tags in ("upos", "xpos"):
        read_labelled(folder / name, tags=tags)


TARGETS: dict[str, Target] = {
    "named entities, CoNLL-2003": Target(_text("a.conll", _NER), lambda folder: read_entities(folder / "a.conll")),
    "named entities, Universal NER": Target(_text("a.iob2", _UNER), lambda folder: read_entities(folder / "a.iob2")),
    "semantic roles, CoNLL-2012": Target(_text("a.conll", _SRL), lambda folder: read_propositions(folder / "a.conll")),
    "semantic roles, CoNLL-2005": Target(_text("a.t", _SRL_2005), lambda folder: read_propositions(folder / "a.t")),
    "coreference": Target(_text("a.conll", _COREF), lambda folder: read_documents(folder / "a.conll", singletons=True)),
    "sentiment": Target(
        _text("a.txt", "(3 (2 It) (4 (2 's) (4 lovely)))\n(1 (2 No) (0 -LRB-))\n"),
        lambda folder: read_texts(folder / "a.txt", classes=2, phrases=True),
    ),
    "SQuAD": Target(_text("a.json", _SQUAD), lambda folder: read_questions(folder / "a.json")),
    "SNLI": Target(_text("a.jsonl", _SNLI * 2), lambda folder: read_pairs(folder / "a.jsonl")),
    "SICK": Target(_text("a.txt", _SICK), lambda folder: read_pairs(f"{folder / 'a.txt'}:TRAIN")),
    "labelled CoNLL-U": Target(_text("a.conllu", _CONLLU), partial(_labelled, "a.conllu")),
    "labelled columns": Target(_text("a.tsv", "The DET\nbank NOUN\n\nIt PRON\n"), partial(_labelled, "a.tsv")),
    "senses": Target(_make_senses, lambda folder: list(SenseSet.open(folder / "a.data.xml").sentences())),
    "WordNet": Target(_make_wordnet, _read_wordnet),
    "vocabulary": Target(
        _text("vocab.txt", "<S>\n</S>\n<UNK>\nthe\nbank\n"), lambda folder: Vocabulary.load(folder / "vocab.txt")
    ),
    "JSON": Target(
        _text("a.json", '{"a": [1, 2.5, "x\\u00e9", null], "b": {"c": true}}'),
        lambda folder: read_json_object(folder / "a.json", expected="JSON"),
    ),
    "TOML": Target(_text("a.toml", _SETTINGS), lambda folder: read_toml(folder / "a.toml")),
    "--set": Target(
        _text("a.txt", "[[1, 2.5], {a = 3}, 'x']"),
        lambda folder: parse_value((folder / "a.txt").read_text(encoding="utf-8", errors="replace")),
    ),
    "hdf5": Target(_golden("allennlp/relu1", "options.json", "weights.hdf5"), partial(_load, "weights.hdf5")),
    "hdf5 of words": Target(_golden("bilm/word"), partial(_load, "")),
    "TensorFlow": Target(
        _golden(
            "checkpoints/char", "options.json", "checkpoint", "model.ckpt-12.index", "model.ckpt-12.data-00000-of-00001"
        ),
        partial(_load, "model.ckpt-12.index"),
    ),
    "ELMoForManyLangs": Target(_golden("efml/word_char"), partial(_load, "")),
    "ELMoForManyLangs, words": Target(_golden("efml/word_only"), partial(_load, "")),
    "elmo-torch": Target(_make_native, partial(_load, "")),
    "elmo-torch, int8": Target(partial(_make_native, storage="int8"), partial(_load, "")),
    "zip": Target(_make_zip, partial(_load, "model.zip")),
    "tar": Target(_make_tar, _open_tar),
    "neighbour index": Target(_make_index, _ask_index),
    "input, text": Target(
        _text("a.txt", "Mr. Smith left. “Why?” he asked.\n\nNobody knew: see www.a.com or a@b.org!\n"),
        partial(_sentences, "a.txt", format="text"),
    ),
    "input, Wikipedia": Target(_text("a.xml", _WIKIPEDIA), partial(_sentences, "a.xml")),
    "input, CoNLL-U": Target(_text("a.conllu", _CONLLU), partial(_sentences, "a.conllu")),
    "input, JSON lines": Target(
        _text("a.jsonl", '{"text": "One sentence.", "id": 3}\n{"text": ["two", "tokens"], "id": null}\n'),
        partial(_sentences, "a.jsonl", columns=RowOptions(id_column="id")),
    ),
    "input, CSV": Target(_text("a.csv", 'id,text\n1,"One, two"\n2,three\n'), partial(_sentences, "a.csv")),
    "input, Parquet": Target(_make_parquet, partial(_sentences, "a.parquet")),
    "input, gzip": Target(_compressed(gzip.compress, "a.txt.gz"), partial(_sentences, "a.txt.gz")),
    "input, Zstandard": Target(_compressed(zstandard.compress, "a.txt.zst"), partial(_sentences, "a.txt.zst")),
}
