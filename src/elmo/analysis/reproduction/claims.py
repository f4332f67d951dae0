"""The paper's claims, each checked against what was measured: held, held for some, or not held.

    claim = all_layers_beat_the_last(ablations)
    claim.verdict, claim.checks[0].evidence        # "held", "84.80 ± 0.21 against 84.11 ± 0.30"

A difference counts as it is; where it is smaller than the seeds' spread, the evidence says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from elmo.analysis.ablation import ALL, AVERAGE, BASELINE, BOTH, FIRST_TWO, INPUT, LAST, OUTPUT, Ablation
from elmo.analysis.learning_curve import LearningCurve
from elmo.analysis.mix_weights import MixRow
from elmo.analysis.reproduction import paper
from elmo.analysis.sense_probe import WHITENED
from elmo.tasks.table import TableRow


class Measured(Protocol):
    """A mean with its spread over seeds."""

    @property
    def mean(self) -> float: ...
    @property
    def std(self) -> float: ...


@dataclass(frozen=True)
class Check:
    """A claim for one task, layer or pair."""

    subject: str
    held: bool
    evidence: str


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether it is so here."""

    text: str
    source: str
    """Where the paper shows it."""
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        held = sum(check.held for check in self.checks)
        if held == len(self.checks):
            return "held"
        return f"held for {held} of {len(self.checks)}" if held else "not held"


@dataclass(frozen=True)
class _Summary:
    mean: float
    std: float


def elmo_helps(rows: Sequence[TableRow]) -> list[Claim]:
    """Table 1."""
    better = [
        _more(_name(row.task), _Summary(**row.elmo), _Summary(**row.baseline), "with ELMo", "without") for row in rows
    ]
    as_much = [
        Check(
            _name(row.task),
            row.reaches_paper,
            f"{row.reduction:.1f}% of the error, in the paper {row.paper.reduction:g}%",
        )
        for row in rows
        if row.paper is not None
    ]
    return [
        Claim("ELMo improves on the baseline", "table 1", tuple(better)),
        Claim("ELMo takes away at least as much of the error as in the paper", "table 1", tuple(as_much)),
    ]


def layers_matter(ablations: Sequence[Ablation]) -> list[Claim]:
    """Table 2."""

    def pairs(better: str, worse: str) -> tuple[Check, ...]:
        return tuple(
            _more(_name(each.task), each.scores[better], each.scores[worse], better, worse) for each in ablations
        )

    first_two = tuple(
        Check(
            _name(each.task),
            each.scores[FIRST_TWO].mean >= each.scores[ALL].mean - 0.5,
            _against(each.scores[FIRST_TWO], each.scores[ALL], "first two", "all"),
        )
        for each in ablations
    )
    return [
        Claim("All layers are better than the last only", "table 2", pairs(ALL, LAST)),
        Claim("The last layer only is better than no ELMo", "table 2", pairs(LAST, BASELINE)),
        Claim(
            "Weights that may vary (lambda 0.001) are better than a plain average (lambda 1)",
            "table 2",
            pairs(ALL, AVERAGE),
        ),
        Claim("The first two layers are as good as all, within half a point", "later work", first_two),
    ]


def places_matter(ablations: Sequence[Ablation]) -> list[Claim]:
    """Table 3."""
    roles = [each for each in ablations if each.task == "semantic_roles"]
    others = [each for each in ablations if each.task in ("question_answering", "entailment")]

    def pairs(chosen: Sequence[Ablation], better: str, worse: str) -> tuple[Check, ...]:
        return tuple(_more(_name(each.task), each.scores[better], each.scores[worse], better, worse) for each in chosen)

    claims = [
        Claim(
            "For semantic roles the input is the better place than the output", "table 3", pairs(roles, INPUT, OUTPUT)
        ),
        Claim("For semantic roles the input alone is better than both places", "table 3", pairs(roles, INPUT, BOTH)),
        Claim(
            "With attention above the RNN, both places are better than the input alone",
            "table 3",
            pairs(others, BOTH, INPUT),
        ),
        Claim(
            "With attention above the RNN, both places are better than the output alone",
            "table 3",
            pairs(others, BOTH, OUTPUT),
        ),
    ]
    return [claim for claim in claims if claim.checks]


def less_data(curves: Sequence[LearningCurve]) -> list[Claim]:
    """Figure 1."""
    tenth, earlier = [], []
    for curve in curves:
        for small in curve.points:
            large = [point for point in curve.points if abs(point.share / small.share - 10) < 0.1]
            if large:
                subject = f"{_name(curve.task)}, {100 * small.share:g}% against {100 * large[0].share:g}%"
                evidence = _against(small.elmo, large[0].baseline, "ELMo", "baseline")
                tenth.append(Check(subject, small.elmo.mean >= large[0].baseline.mean, evidence))
        epochs = curve.epochs
        passed = epochs.elmo_epoch
        earlier.append(
            Check(
                _name(curve.task),
                passed is not None and passed < epochs.baseline_epoch,
                f"baseline's best in epoch {epochs.baseline_epoch:.3g}, "
                + ("never reached with every seed" if passed is None else f"reached with ELMo in epoch {passed:.3g}"),
            )
        )
    claims = [
        Claim("With a tenth of the data ELMo is as good as the baseline", "figure 1", tuple(tenth)),
        Claim("ELMo reaches the baseline's best in fewer epochs", "section 5.4", tuple(earlier)),
    ]
    return [claim for claim in claims if claim.checks]


def weights_are_used(rows: Sequence[MixRow]) -> list[Claim]:
    """Figure 2."""

    def shown(row: MixRow) -> str:
        return ", ".join(f"{weight:.2f}" for weight in row.weights)

    mixed = [row for row in rows if len(row.weights) > 1]
    inputs = tuple(
        Check(_name(row.task), row.weights[1] == max(row.weights), shown(row)) for row in mixed if row.place == "input"
    )
    outputs = tuple(
        Check(_name(row.task), max(row.weights) < 0.5, shown(row)) for row in mixed if row.place == "output"
    )
    claims = [
        Claim("At the input the first LSTM layer has the largest weight", "figure 2", inputs),
        Claim("At the output the weights are balanced: no layer has half", "figure 2", outputs),
    ]
    return [claim for claim in claims if claim.checks]


def meaning_is_higher(f1: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """Table 5: F1 by row and set."""
    column = "four" if "four" in f1["WordNet first sense"] else "ALL"
    first = f1["WordNet first sense"]
    scores = {name: figures[column] for name, figures in f1.items()}
    known = [name for name in paper.FIRST_SENSE if name in first and "four" in first]
    right = tuple(
        Check(name, abs(first[name] - wanted) <= 0.1, f"{first[name]:.1f}, published {wanted:g}")
        for name, wanted in paper.FIRST_SENSE.items()
        if name in known
    )

    def beats(*layers: str) -> tuple[Check, ...]:
        wanted = scores["WordNet first sense"]
        known = [layer for layer in layers if layer in scores]
        return tuple(
            Check(layer, scores[layer] > wanted, f"{scores[layer]:.1f} against {wanted:.1f}") for layer in known
        )

    upper = ("layer 1", "layer 2")
    claims = [
        Claim("The first-sense baseline is what is published, within 0.1", "table 5", right),
        Claim("The nearest sense is better than WordNet's first sense", "table 5", beats(*upper)),
        Claim("The same with whitened layers", "not in the paper", beats(*(layer + WHITENED for layer in upper))),
    ]
    if "layer 2" in scores:
        higher = Check("senses", scores["layer 2"] > scores["layer 1"], _layers(scores["layer 1"], scores["layer 2"]))
        claims.append(Claim("Meaning is found higher: layer 2 is better than layer 1", "table 5", (higher,)))
    return [claim for claim in claims if claim.checks]


def syntax_is_lower(accuracy: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """Table 6: test accuracy by kind of tag and layer."""
    checks = tuple(
        Check(kind, layers["layer 1"] > layers["layer 2"], _layers(layers["layer 1"], layers["layer 2"]))
        for kind, layers in accuracy.items()
        if "layer 2" in layers
    )
    claim = Claim("Syntax is found lower: layer 1 is better than layer 2", "table 6", checks)
    return [claim] if checks else []


def neighbours_share_the_sense(word: str, right: float, chance: float) -> Claim:
    """Table 4, with a number to it."""
    check = Check(
        word, right > chance, f"{right:.0f}% of the nearest occurrences, {chance:.0f}% are of the usual sense"
    )
    return Claim("The nearest occurrence of a word has its sense", "table 4", (check,))


def _more(subject: str, better: Measured, worse: Measured, name: str, other: str) -> Check:
    return Check(subject, better.mean > worse.mean, _against(better, worse, name, other))


def _against(one: Measured, other: Measured, name: str, other_name: str) -> str:
    spread = max(one.std, other.std)
    within = "; within the spread of seeds" if spread and abs(one.mean - other.mean) < spread else ""
    return f"{name} {_shown(one)}, {other_name} {_shown(other)}{within}"


def _shown(scores: Measured) -> str:
    return f"{scores.mean:.2f} ± {scores.std:.2f}" if scores.std else f"{scores.mean:.2f}"


def _layers(first: float, second: float) -> str:
    return f"layer 1 {first:.2f}, layer 2 {second:.2f}"


def _name(task: str) -> str:
    return task.replace("_", " ")
