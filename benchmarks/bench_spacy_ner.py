"""Named entities in spaCy on its own tok2vec and on ELMo: the same config, the same minutes.

    python benchmarks/bench_spacy_ner.py data/ner/uner-ewt --minutes 6 -o results

The folder holds Universal NER's files (*-train.iob2, *-dev.iob2, *-test.iob2). Each arm is a process of its own with
one thread; they run at the same time. The minutes are processor time: on a free core that is wall-clock time, and on a
busy machine it is still the same for all arms. They contain everything: opening the biLM and computing its layers, the
updates, and the evaluations on the development set. The best pipeline on the development set counts. The config is
examples/integrations/spacy_train.cfg with the components tok2vec and ner; the arms differ in the block
[components.tok2vec.model] alone. A table for people, one JSON line last for machines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

CONFIG = Path(__file__).parent.parent / "examples" / "integrations" / "spacy_train.cfg"
WIDTH = 96
ELMO = {"@architectures": "elmo.Tok2Vec.v1", "width": WIDTH}
ARMS: dict[str, dict[str, Any]] = {
    # spaCy's default for the component "tok2vec"
    "spacy.HashEmbedCNN.v2": {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "width": WIDTH,
        "depth": 4,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
        "pretrained_vectors": None,
    },
    "elmo.Tok2Vec.v1": ELMO,
    "elmo.Tok2Vec.v1 + CNN": {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": ELMO,
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": WIDTH,
            "depth": 4,
            "window_size": 1,
            "maxout_pieces": 3,
        },
    },
}
PARTS = ("train", "dev", "test")


class TimeIsUpError(Exception):
    """Ends spaCy's training loop."""


def write_corpus(source: Path, target: Path) -> dict[str, int]:
    """Universal NER's files as spaCy's; returns the number of sentences of each part."""
    import spacy
    from spacy.tokens import Doc, DocBin, Span

    from elmo.tasks.named_entities.data import read_sentences

    vocab, counts = spacy.blank("en").vocab, {}
    for part in PARTS:
        (path,) = source.glob(f"*-{part}.iob2")
        docs = DocBin()
        for sentence in read_sentences(path):
            doc = Doc(vocab, words=list(sentence.tokens))
            doc.set_ents([Span(doc, span.start, span.end, label=span.label) for span in sentence.entities])
            docs.add(doc)
        docs.to_disk(target / f"{part}.spacy")
        counts[part] = len(docs)
    return counts


def train(arm: str, corpus: Path, *, minutes: float, seed: int) -> dict[str, Any]:
    """Train one arm, and measure its best pipeline."""
    import spacy
    from spacy.training.corpus import Corpus
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train as training_loop

    import elmo.integrations.spacy  # noqa: F401
    from elmo.provenance import peak_bytes

    progress: dict[str, Any] = {}
    started, processor_started = time.monotonic(), time.process_time()

    @spacy.registry.callbacks("bench.stop.v1")  # type: ignore[untyped-decorator]
    def stop() -> Callable[[Any, dict[str, int]], None]:
        def before_update(nlp: Any, place: dict[str, int]) -> None:
            progress.update(place)
            if time.process_time() - processor_started > 60 * minutes:
                raise TimeIsUpError

        return before_update

    config = spacy.util.load_config(CONFIG)
    config["nlp"]["pipeline"] = ["tok2vec", "ner"]
    config["components"] = {name: config["components"][name] for name in config["nlp"]["pipeline"]}
    config["components"]["tok2vec"]["model"] = ARMS[arm]
    config["components"]["ner"]["model"]["tok2vec"]["width"] = WIDTH
    config["paths"] = {part: str(corpus / f"{part}.spacy") for part in ("train", "dev")}
    config["system"] = {"seed": seed}
    config["training"] = {"patience": 0, "max_steps": 0, "before_update": {"@callbacks": "bench.stop.v1"}}
    nlp = init_nlp(spacy.util.load_model_from_config(config, auto_fill=True).config)
    output = corpus / arm.replace(" ", "")
    output.mkdir()
    with suppress(TimeIsUpError):
        training_loop(nlp, output, stdout=sys.stderr)
    progress["wall_minutes"] = (time.monotonic() - started) / 60
    best = spacy.load(output / "model-best")
    scores = {part: best.evaluate(Corpus(corpus / f"{part}.spacy")(best)) for part in ("dev", "test")}
    names = {"precision": "ents_p", "recall": "ents_r", "f1": "ents_f"}
    result: dict[str, Any] = {
        part: {name: 100 * values[key] for name, key in names.items()} for part, values in scores.items()
    }
    for node in best.get_pipe("tok2vec").model.walk():
        if node.name == "elmo_mix":
            weights = np.exp(node.get_param("weights"))
            result["mix"] = {"weights": (weights / weights.sum()).tolist(), "gamma": float(node.get_param("gamma")[0])}
    return {**result, **progress, "peak_mb": peak_bytes() / 1e6}


def run_all(arguments: argparse.Namespace, corpus: Path) -> dict[str, Any]:
    """Every arm at the same time, with one thread."""
    one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS")}
    running = {}
    for arm in arguments.arms:
        command = [sys.executable, __file__, str(corpus), "--one", arm]
        command += ["--minutes", str(arguments.minutes), "--seed", str(arguments.seed)]
        running[arm] = subprocess.Popen(command, env={**os.environ, **one_thread}, stdout=subprocess.PIPE, text=True)
    results = {}
    for arm, process in running.items():
        printed, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"{arm} failed; what it printed stands above.")
        results[arm] = json.loads(printed.splitlines()[-1])
    return results


def table(results: dict[str, Any]) -> str:
    from elmo.provenance import markdown_table

    rows = []
    for arm, result in results.items():
        scores = [f"{result[part][name]:.1f}" for part in ("dev", "test") for name in ("precision", "recall", "f1")]
        rows.append([f"`{arm}`", *scores, f"{result['step']:,}", str(result["epoch"]), f"{result['peak_mb']:,.0f}"])
    columns = ["tok2vec", "dev P", "R", "F1", "test P", "R", "F1", "updates", "epochs", "peak MB"]
    return markdown_table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="the folder for spacy_ner.md and spacy_ner.json")
    parser.add_argument("--one", choices=ARMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        result = train(arguments.one, arguments.data, minutes=arguments.minutes, seed=arguments.seed)
        print(json.dumps(result))
        return
    from elmo.provenance import Report, collect, write_report

    with tempfile.TemporaryDirectory() as folder:
        counts = write_corpus(arguments.data, Path(folder))
        results = run_all(arguments, Path(folder))
    text = f"""\
Entity precision, recall and F1 after {arguments.minutes:g} minutes of training (processor time, one thread); the three
models were trained at the same time. {counts["train"]:,} sentences for training, {counts["dev"]:,} for development,
{counts["test"]:,} for testing. The models differ only in the tok2vec; ELMo is the bundled model.
spaCy {version("spacy")}.

{table(results)}"""
    print(text)
    if arguments.output:
        data = {"minutes": arguments.minutes, "sentences": counts, "arms": results}
        report = Report("spacy_ner", "Named entities in spaCy: its own tok2vec and ELMo", text, data)
        write_report(report, arguments.output, provenance=collect(seed=arguments.seed))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
