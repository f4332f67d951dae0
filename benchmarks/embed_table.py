"""The figures of bench_embed.py -> ratios by name, and the tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from elmo.provenance import markdown_table

Results = dict[str, Any]
Summary = dict[str, Any]
SIZES = {"full": "full size (2 x 4096 / 512)", "small": "small (2 x 1024 / 128)"}


@dataclass(frozen=True)
class Goal:
    """What a figure should reach."""

    key: str
    bound: float
    at_most: bool = False

    def met_by(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


GOALS = (
    Goal("full_bulk_x", 4.5),
    Goal("full_warm_x", 5.5),
    Goal("full_share_of_limit", 0.85),
    Goal("full_share_of_plain_limit", 0.85),
    Goal("full_latency_x", 4.5),
    Goal("full_fp16_latency_x", 7),
    Goal("full_int8_latency_x", 11),
    Goal("small_bulk_x", 12),
    Goal("small_warm_x", 22),
    Goal("small_latency_x", 8),
    Goal("full_max_error", 1e-5, at_most=True),
    Goal("small_max_error", 1e-5, at_most=True),
    Goal("int8_mean_cosine", 0.999),
    Goal("int8_lowest_cosine", 0.99),
    Goal("fp16_lowest_cosine", 0.9999),
    Goal("full_memory_share", 0.5, at_most=True),
    Goal("full_load_hdf5_x", 1),
    Goal("full_load_safetensors_x", 4),
    Goal("full_growth", 0.95),
    Goal("small_growth", 0.95),
)


def summary(results: Results) -> Summary:
    """Ratios (x: times AllenNLP), shares and errors; None for what could not be measured. `raw` holds the medians."""
    line: Summary = {}
    for size in SIZES:
        line |= {f"{size}_{key}": value for key, value in _ratios(results[size]).items()}
    for name, precision in (("fp16", "float16"), ("int8", "int8")):
        angles = results["precisions"].get(precision, {})
        line |= {f"{name}_{key}": angles.get(key) for key in ("mean_cosine", "lowest_cosine")}
    line["quiet"] = results["worst_disturbance"] <= results["quiet_share"]
    raw = {size: {key: value for key, value in results[size].items() if key != "rounds"} for size in SIZES}
    line["raw"] = {**raw, "worst_disturbance": results["worst_disturbance"]}
    return line


def _ratios(figures: dict[str, Any]) -> dict[str, float | None]:
    peer, ours, limit = figures["allennlp"], figures["fp32"], figures["limit"]
    peak = 1e9 * figures["machine"]["peak_gflops"]
    ratios: dict[str, float | None] = {
        "bulk_x": ours["tokens_per_second"] / peer["tokens_per_second"],
        "warm_x": ours["warm_tokens_per_second"] / peer["tokens_per_second"],
        "bulk_x_sorted": ours["tokens_per_second"] / figures["allennlp_sorted_tokens_per_second"],
        "share_of_limit": ours["tokens_per_second"] * limit["least"] / peak,
        "share_of_plain_limit": ours["tokens_per_second"] * limit["plain"] / peak,
        "latency_x": peer["latency"]["p50"] / ours["latency"]["p50"],
        "latency_warm_x": peer["latency"]["p50"] / ours["latency_warm"]["p50"],
        "memory_share": figures["memory"]["ours_mb"] / figures["memory"]["allennlp_mb"],
        "growth": figures["growth"]["whole_against_tenths"],
    }
    for name in ("hdf5", "safetensors"):
        ratios[f"load_{name}_x"] = peer["load_seconds"] / ours[name]["load_seconds"]
        ratios[f"first_vectors_{name}_x"] = peer["first_vectors_seconds"] / ours[name]["first_vectors_seconds"]
    for name in ("fp16", "int8"):
        lower = figures.get(name)
        ratios[f"{name}_bulk_x"] = lower and lower["tokens_per_second"] / peer["tokens_per_second"]
        ratios[f"{name}_latency_x"] = lower and peer["latency"]["p50"] / lower["latency"]["p50"]
    rounded = {key: None if value is None else round(value, 3) for key, value in ratios.items()}
    return rounded | {"max_error": figures["error"]["max_error_float64"]}


LEGEND = (
    "`full` and `small` are the two published sizes. `_x`: times AllenNLP. `bulk`: a whole text; `warm`: the same with "
    "all words cached; `latency`: one sentence of 20 tokens. `share_of_limit`: the speed relative to an upper bound "
    '(docs/speed.md, "Repeating the measurements"). `growth`: the speed for a whole text relative to that for its '
    "tenths. `max_error`: the largest difference from float64."
)


def markdown(results: Results, line: Summary) -> str:
    """All tables."""
    parts = [_goals(line)]
    for size, title in SIZES.items():
        parts += [f"## {title}", _speeds(results[size]), _notes(results[size])]
    parts += ["## Lower precision with a trained model", _cosines(results["precisions"])]
    if not line["quiet"]:
        share = f"other processes took up to {results['worst_disturbance']:.0%} of it"
        parts.insert(0, f"**The machine was not quiet: {share}. Do not cite these figures.**")
    return "\n\n".join(parts)


def _goals(line: Summary) -> str:
    rows = []
    for goal in GOALS:
        value = line[goal.key]
        said = "not measured" if value is None else f"{value:.3g}" if abs(value) < 0.01 else f"{value:.4g}"
        verdict = "-" if value is None else "yes" if goal.met_by(value) else "no"
        rows.append([goal.key, said, f"{'at most' if goal.at_most else 'at least'} {goal.bound:g}", verdict])
    return markdown_table(["figure", "measured", "goal", "met"], rows) + "\n\n" + LEGEND


def _speeds(figures: dict[str, Any]) -> str:
    peer = figures["allennlp"]

    def row(name: str, speed: float, latency: dict[str, float] | None) -> list[str]:
        single = ["-", "-", "-"]
        if latency is not None:
            ratio = peer["latency"]["p50"] / latency["p50"]
            single = [f"{latency['p50']:.1f}", f"{latency['p95']:.1f}", f"{ratio:.2f} x"]
        return [name, f"{speed:,.0f}", f"{speed / peer['tokens_per_second']:.2f} x", *single]

    rows = [
        row(f"AllenNLP, {peer['batch']} sentences a batch", peer["tokens_per_second"], peer["latency"]),
        row("AllenNLP, text sorted by length", figures["allennlp_sorted_tokens_per_second"], None),
        row("ours, float32", figures["fp32"]["tokens_per_second"], figures["fp32"]["latency"]),
        row("ours, float32, words known", figures["fp32"]["warm_tokens_per_second"], figures["fp32"]["latency_warm"]),
    ]
    for name, title in (("fp16", "ours, float16 weights"), ("int8", "ours, int8 weights")):
        if name in figures:
            rows.append(row(title, figures[name]["tokens_per_second"], figures[name]["latency"]))
    single = ["20 tokens alone, ms (median)", "95th centile", "times AllenNLP"]
    return markdown_table(["", "tokens/s", "times AllenNLP", *single], rows)


def _notes(figures: dict[str, Any]) -> str:
    machine, limit, ours, peer = figures["machine"], figures["limit"], figures["fp32"], figures["allennlp"]
    memory, error, growth = figures["memory"], figures["error"], figures["growth"]
    alone = limit["sentence"]
    from_memory, from_cache = (
        1000 * alone["bytes"] / (1e9 * machine[rate]) for rate in ("read_gb_per_second", "cached_gb_per_second")
    )
    new_words = 1000 * alone["flops_of_new_words"] / (1e9 * machine["peak_gflops"])
    lines = [
        f"Peak of this machine: {machine['peak_gflops']:.0f} GFLOP/s (torch {machine['torch_gflops']:.0f}, our packed "
        f"product {machine['packed_gflops']:.0f}); memory is read at {machine['read_gb_per_second']:.0f} GB/s, the "
        f"shared cache at {machine['cached_gb_per_second']:.0f} GB/s.",
        f"Limit: {_share(figures, 'least')}, counting each distinct word and each beginning of a sentence once in the "
        f"text. Plainly counted (words once in every 64 sentences, a step for every token and marker), "
        f"{_share(figures, 'plain')}. `needed_work.py` says how.",
        f"One sentence: reading the LSTM's float32 weights at every step takes {from_memory:.1f} ms from memory or "
        f"{from_cache:.1f} ms from the cores' shared cache, if they fit there; the products of its new words take "
        f"{new_words:.1f} ms at the peak.",
        f"Text: {limit['tokens']:,} tokens, {limit['distinct_words']:,} distinct words, in its own order. Ours runs "
        f"{ours['batch_tokens']} tokens a batch, and sorts inside a window by itself.",
        f"Memory at a batch of {memory['batch']} sentences: {memory['ours_mb']:,.0f} MB, AllenNLP "
        f"{memory['allennlp_mb']:,.0f} MB.",
        f"Load: hdf5 {ours['hdf5']['load_seconds']:.2f} s, AllenNLP {peer['load_seconds']:.2f} s, our safetensors "
        f"{ours['safetensors']['load_seconds']:.3f} s. Until the first sentence's vectors: "
        f"{ours['hdf5']['first_vectors_seconds']:.2f}, {peer['first_vectors_seconds']:.2f}, "
        f"{ours['safetensors']['first_vectors_seconds']:.2f} s.",
        f"Growth: {growth['tokens']:,} tokens at once {growth['whole_tokens_per_second']:,.0f} tokens/s, in ten parts "
        f"{growth['tenths_tokens_per_second']:,.0f}.",
        f"Largest error against float64: {error['max_error_float64']:.1e}, AllenNLP's "
        f"{error['max_error_of_other_tool']:.1e}; between the two {error['max_difference_from_other_tool']:.1e}.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _share(figures: dict[str, Any], count: str) -> str:
    """
    >>> figures = {"machine": {"peak_gflops": 200}, "limit": {"plain": 1e8}, "fp32": {"tokens_per_second": 1000}}
    >>> _share(figures, "plain")
    '100.0 MFLOP a token, 2,000 tokens/s: 50% reached'
    """
    flops, peak = figures["limit"][count], 1e9 * figures["machine"]["peak_gflops"]
    reached = figures["fp32"]["tokens_per_second"] * flops / peak
    return f"{flops / 1e6:.1f} MFLOP a token, {peak / flops:,.0f} tokens/s: {reached:.0%} reached"


def precision_table(results: Results) -> str:
    """One row for each size and precision."""
    rows = []
    for size, found in results["sizes"].items():
        base = found["float32"]
        for name, one in found.items():
            speed, single = one["tokens_per_second"], one["latency"]["p50"]
            cosine = results["cosines"].get(name) if size == "bundled" else None
            rows.append(
                [
                    *(f"{size}", name, f"{speed:,.0f}", f"{speed / base['tokens_per_second']:.2f} x"),
                    *(f"{single:.1f}", f"{base['latency']['p50'] / single:.2f} x", f"{one['peak_memory_mb']:,.0f}"),
                    "-" if cosine is None else f"{cosine['lowest_cosine']:.5f}",
                ]
            )
    single = ["20 known words alone, ms", "times float32"]
    table = markdown_table(
        ["size", "precision", "bulk, tokens/s", "times float32", *single, "peak MB", "lowest cosine to float32"], rows
    )
    share = f"Other processes took up to {results['worst_disturbance']:.0%} of the machine."
    return f"{table}\n\n- Only the bundled model's weights are trained; the other sizes have random ones. {share}"


def _cosines(precisions: dict[str, Any]) -> str:
    if not precisions:
        return "Not measured: this version has no lower precision."
    rows = [
        [name, f"{found['mean_cosine']:.6f}", f"{found['lowest_cosine']:.6f}", f"{found['tokens']:,}"]
        for name, found in precisions.items()
    ]
    return markdown_table(["against float32, every layer", "mean cosine", "lowest", "tokens"], rows)
