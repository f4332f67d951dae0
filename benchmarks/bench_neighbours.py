"""Exact and approximate search of an index of neighbours: recall@10, milliseconds a query, build time, memory.

    elmo neighbours build corpus.txt -o index
    python benchmarks/bench_neighbours.py build index -o work [--only hnswlib]   # a file for each library
    python benchmarks/bench_neighbours.py search index -o work                   # the table, into benchmarks/results

The queries are occurrences of the corpus, drawn at random, whose own row is not counted as a neighbour. Every build and
every search has a process of its own, so that its memory is its own. A query comes alone, as a user's does. All times
are CPU times, which other processes on the machine change least, and a query has one thread.
pip install faiss-cpu usearch hnswlib
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

NUM_QUERIES, NEIGHBOURS, SEED = 200, 10, 0
RERANKED = 200
NUM_EXACT = 40
"""Queries of the exact search, whose time hardly varies."""
ROWS_AT_ONCE = 65536
RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("exact", "faiss-ivf", "faiss-ivf-sq8", "faiss-hnsw", "usearch-f16", "usearch-i8", "hnswlib")
# How far each library looks: candidates of a graph, lists of an inverted file.
EFFORTS = {"exact": (0,), "faiss-ivf": (8, 16, 32, 64), "faiss-ivf-sq8": (8, 16, 32, 64)}
DEFAULT_EFFORTS = (32, 64, 128, 256)

Search = Callable[[np.ndarray], np.ndarray]


def blocks(vectors: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        part = vectors[start : start + ROWS_AT_ONCE].astype(np.float32)
        yield np.arange(start, start + len(part)), part


def build(library: str, vectors: np.ndarray, path: str) -> None:
    dim = vectors.shape[1]
    if library.startswith("faiss"):
        import faiss

        if library == "faiss-hnsw":
            index = faiss.IndexHNSWSQ(dim, faiss.ScalarQuantizer.QT_fp16, 16, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = 128
        else:
            lists = round(len(vectors) ** 0.5)
            index = faiss.index_factory(
                dim, f"IVF{lists},{'SQ8' if library == 'faiss-ivf-sq8' else 'SQfp16'}", faiss.METRIC_INNER_PRODUCT
            )
        rows = np.sort(np.random.default_rng(SEED).choice(len(vectors), min(len(vectors), 100_000), replace=False))
        index.train(vectors[rows].astype(np.float32))
        for _, part in blocks(vectors):
            index.add(part)
        faiss.write_index(index, path)
    elif library.startswith("usearch"):
        from usearch.index import Index

        index = Index(ndim=dim, metric="cos", dtype=library[8:], connectivity=16, expansion_add=128)
        for rows, part in blocks(vectors):
            index.add(rows, part)
        index.save(path)
    elif library == "hnswlib":
        import hnswlib

        index = hnswlib.Index("ip", dim)
        index.init_index(len(vectors), M=16, ef_construction=128, random_seed=SEED)
        for rows, part in blocks(vectors):
            index.add_items(part, rows)
        index.save_index(path)


def opened(library: str, vectors: np.ndarray, path: str) -> Callable[[int], Search]:
    """The index on disk: effort -> a function from one query to the rows of its nearest vectors."""
    number = NEIGHBOURS + 1
    if library == "exact":
        import torch

        from elmo.explore.neighbours import similarities

        torch.set_num_threads(1)  # threads that wait for each other count as CPU time
        return lambda effort: lambda query: np.argpartition(-similarities(vectors, query), number)[:number]
    if library.startswith("faiss"):
        import faiss

        index = faiss.read_index(path, faiss.IO_FLAG_MMAP if "ivf" in library else 0)

        def with_effort(effort: int) -> Search:
            if library == "faiss-hnsw":
                index.hnsw.efSearch = effort
            else:
                index.nprobe = effort
            if library == "faiss-ivf-sq8":
                return lambda query: reranked(index.search(query[None], RERANKED)[1][0], vectors, query)
            return lambda query: index.search(query[None], number)[1][0]

        return with_effort
    if library.startswith("usearch"):
        from usearch.index import Index

        index = Index.restore(path, view=True)

        def with_expansion(effort: int) -> Search:
            index.expansion_search = effort
            return lambda query: index.search(query, number).keys

        return with_expansion
    import hnswlib

    index = hnswlib.Index("ip", vectors.shape[1])
    index.load_index(path)

    def with_ef(effort: int) -> Search:
        index.set_ef(effort)
        return lambda query: index.knn_query(query[None], number)[0][0]

    return with_ef


def reranked(rows: np.ndarray, vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The best of the candidates by their vectors in float16, which the index of neighbours holds anyway."""
    rows = np.sort(rows[rows >= 0])
    scores = vectors[rows].astype(np.float32) @ query
    return rows[np.argsort(-scores)[: NEIGHBOURS + 1]]


def queries_of(vectors: np.ndarray) -> np.ndarray:
    return np.sort(np.random.default_rng(SEED).choice(len(vectors), NUM_QUERIES, replace=False))


def resident_bytes(kind: str) -> int:
    """Memory of this process that is its own (RssAnon) or mapped from files (RssFile)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))


def search(library: str, vectors: np.ndarray, work: Path) -> dict[str, Any]:
    """Recall against the exact search in float32, and the median time of a query."""
    queries = queries_of(vectors)
    started = time.process_time()
    choose = opened(library, vectors, str(work / library))
    choose(EFFORTS.get(library, DEFAULT_EFFORTS)[0])(vectors[queries[0]].astype(np.float32))
    first = time.process_time() - started
    truth = np.load(work / "truth.npy")
    found = {}
    for effort in EFFORTS.get(library, DEFAULT_EFFORTS):
        find = choose(effort)
        for row in queries[:5]:
            find(vectors[row].astype(np.float32))  # pages are read before the clock starts
        seconds, shared = [], 0
        asked = NUM_EXACT if library == "exact" else len(queries)
        for row, nearest in zip(queries[:asked], truth[:asked], strict=True):
            query = vectors[row].astype(np.float32)
            started = time.process_time()
            rows = find(query)
            seconds.append(time.process_time() - started)
            others = [place for place in rows.tolist() if place != row][:NEIGHBOURS]
            shared += len(set(others) & set(nearest.tolist()))
        found[str(effort)] = {
            "recall": shared / (NEIGHBOURS * asked),
            "milliseconds": 1000 * float(np.median(seconds)),
            "milliseconds_p95": 1000 * float(np.quantile(seconds, 0.95)),
        }
    memory = {kind: resident_bytes(kind) for kind in ("RssAnon", "RssFile")}
    return {"efforts": found, "first_answer_seconds": first, **memory}


def write_truth(vectors: np.ndarray, work: Path) -> None:
    """The true neighbours of every query, by a product with all vectors in float32."""
    queries = queries_of(vectors)
    asked = vectors[queries].astype(np.float32)
    scores = np.empty((len(queries), len(vectors)), np.float32)
    for rows, part in blocks(vectors):
        scores[:, rows] = asked @ part.T
    scores[np.arange(len(queries)), queries] = -np.inf
    np.save(work / "truth.npy", np.argpartition(-scores, NEIGHBOURS, axis=1)[:, :NEIGHBOURS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("build", "search"))
    parser.add_argument("index", type=Path, help="the folder of an index")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder for what the libraries build")
    parser.add_argument("--only", choices=LIBRARIES, help="one library; prints its figures as JSON")
    parser.add_argument("--corpus", default="", help="what the corpus is, for the report")
    parser.add_argument("--occurrences", type=int, default=200_000, help="how many of the index's, from the first")
    chosen = parser.parse_args()
    vectors = np.load(chosen.index / "vectors.npy", mmap_mode="r")[: chosen.occurrences]
    chosen.output.mkdir(parents=True, exist_ok=True)
    if chosen.only is None:
        _all(chosen, vectors)
    elif chosen.stage == "build":
        started = time.perf_counter()
        build(chosen.only, vectors, str(chosen.output / chosen.only))
        used = resource.getrusage(resource.RUSAGE_SELF)
        figures = {
            "wall_seconds": time.perf_counter() - started,
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "peak_bytes": used.ru_maxrss * 1024,
        }
        (chosen.output / f"{chosen.only}.json").write_text(json.dumps(figures))
        print(json.dumps(figures))
    else:
        print(json.dumps(search(chosen.only, vectors, chosen.output)))


def _all(chosen: argparse.Namespace, vectors: np.ndarray) -> None:
    if not (chosen.output / "truth.npy").exists():
        write_truth(vectors, chosen.output)
    found: dict[str, Any] = {}
    for library in LIBRARIES:
        if (chosen.stage == "build") == (library == "exact" or (chosen.output / f"{library}.json").exists()):
            continue  # the exact search needs no build; a library that was not built is left out of the table
        command = [sys.executable, __file__, chosen.stage, chosen.index, "-o", chosen.output, "--only", library]
        command += ["--occurrences", str(chosen.occurrences)]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
        found[library] = json.loads(done.stdout.splitlines()[-1])
        print(library, json.dumps(found[library]), flush=True)
    if chosen.stage == "search":
        _report(chosen, vectors, found)


def _report(chosen: argparse.Namespace, vectors: np.ndarray, found: dict[str, Any]) -> None:
    from elmo import provenance

    lines = [
        "| library | effort | recall@10 | CPU ms | p95 | build, CPU s | build, peak GB | file GB | open, s | GB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for library, figures in found.items():
        path = chosen.output / f"{library}.json"
        built = json.loads(path.read_text()) if path.exists() else None
        for effort, each in figures["efforts"].items():
            made = ["", "", f"{vectors.nbytes / 1e9:.2f}"]
            if built is not None:
                size = (chosen.output / library).stat().st_size
                made = [f"{built['cpu_seconds']:,.0f}", f"{built['peak_bytes'] / 1e9:.2f}", f"{size / 1e9:.2f}"]
                figures["build"], figures["file_bytes"] = built, size
            cells = [library, effort, f"{each['recall']:.3f}", f"{each['milliseconds']:.2f}"]
            cells += [f"{each['milliseconds_p95']:.2f}", *made]
            cells += [f"{figures['first_answer_seconds']:.2f}", f"{figures['RssAnon'] / 1e9:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    facts = {"occurrences": len(vectors), "dim": vectors.shape[1], "queries": NUM_QUERIES, "libraries": found}
    where = f" in {chosen.corpus}" if chosen.corpus else ""
    text = (
        f"{len(vectors):,} occurrences{where}, top layer of the bundled model, {vectors.shape[1]} dimensions, "
        f"{NUM_QUERIES} queries on one thread. Effort: the lists (ivf) or candidates (graphs) that a query looks at. "
        "open: CPU seconds to the first answer. GB: memory of the process without mapped files. faiss-ivf-sq8 ranks "
        f"{RERANKED} candidates by their vectors in float16."
    )
    report = provenance.Report(
        f"neighbours_{len(vectors)}",
        title="Nearest neighbours, exact and approximate",
        data=facts,
        markdown="\n".join([text, "", *lines]),
    )
    provenance.write_report(report, RESULTS, provenance=provenance.collect(seed=SEED))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
