"""Claims are checked by the numbers, and small differences are noted."""

from collections.abc import Sequence
from dataclasses import replace

from elmo.paper import (
    figure_1_learning_curve,
    figure_2_mix_weights,
    table_1_tasks,
    table_4_neighbours,
    table_5_senses,
    table_6_parts_of_speech,
)
from elmo.paper.ablation import Ablation, Scores
from elmo.paper.figure_1_learning_curve import CurvePoint, EpochsNeeded, LearningCurve
from elmo.paper.figure_2_mix_weights import MixRow
from elmo.paper.section import Claim, Section
from elmo.paper.table_1_tasks import TableRow
from elmo.paper.table_2_layers import ALL, AVERAGE, BASELINE, FIRST_TWO, LAST
from elmo.paper.table_2_layers import TABLE as TABLE_2
from elmo.paper.table_3_placement import BOTH, INPUT, OUTPUT
from elmo.paper.table_3_placement import TABLE as TABLE_3
from elmo.tasks.catalog import find_task
from elmo.tasks.scores import MeanAndStd


def known(claims: list[Claim]) -> Sequence[Claim]:
    """The claims that a section shows."""
    return Section("", claims=claims).claims


def scores(*values: float) -> Scores:
    results = [{"headline": "f1", "dev": {"f1": value}, "test": None, "seconds": 1.0} for value in values]
    return Scores.of(results)


def ablation(task: str, **values: float) -> Ablation:
    return Ablation(task, "f1", "input", {name: scores(value) for name, value in values.items()})


def row(task: str, baseline: float, elmo: float) -> TableRow:
    return TableRow(task, "f1", MeanAndStd(baseline, 0), MeanAndStd(elmo, 0), {}, {}, find_task(task).paper)


def test_table_1() -> None:
    better, as_much = table_1_tasks.claims([row("named_entities", 90.0, 91.0), row("sentiment", 50.0, 55.0)])
    assert better.verdict == "held"
    assert [check.held for check in as_much.checks] == [False, True] and as_much.verdict == "held for 1 of 2"
    assert as_much.checks[0].evidence == "10.0% of the error, in the paper 21%"
    assert table_1_tasks.claims([row("sentiment", 50.0, 49.0)])[0].verdict == "not held"
    seeds = {"baseline": (50.0, 50.0), "elmo": (51.0, 56.0)}
    unsure = replace(row("sentiment", 50.0, 53.5), scores=seeds)
    assert "within the spread of seeds" in table_1_tasks.claims([unsure])[1].checks[0].evidence


def test_table_2() -> None:
    figures = {BASELINE: 80.0, LAST: 84.0, AVERAGE: 84.5, ALL: 85.0, FIRST_TWO: 84.6}
    verdicts = [claim.verdict for claim in TABLE_2.claims([ablation("entailment", **figures)])]
    assert verdicts == ["held"] * 4
    reverse = TABLE_2.claims([ablation("entailment", **{**figures, LAST: 86.0, FIRST_TWO: 84.0})])
    assert [claim.verdict for claim in reverse] == ["not held", "held", "held", "not held"]


def test_table_3_has_claims_by_task() -> None:
    roles = ablation("semantic_roles", **{INPUT: 84.7, BOTH: 84.3, OUTPUT: 80.9})
    assert [claim.verdict for claim in known(TABLE_3.claims([roles]))] == ["held", "held"]
    pairs = ablation("entailment", **{INPUT: 88.9, BOTH: 89.5, OUTPUT: 90.0})
    assert [claim.verdict for claim in known(TABLE_3.claims([roles, pairs]))] == [
        "held",
        "held",
        "held",
        "not held",
    ]


def test_a_difference_within_the_spread_is_noted() -> None:
    layers = {name: scores(80.0, 84.0) for name in (BASELINE, LAST, AVERAGE, FIRST_TWO)} | {ALL: scores(81.0, 84.0)}
    claim = TABLE_2.claims([Ablation("entailment", "f1", "output", layers)])[0]
    assert claim.verdict == "held" and "within the spread of seeds" in claim.checks[0].evidence


def test_figure_1_compares_a_fraction_with_ten_times_as_much() -> None:
    points = [
        CurvePoint(0.01, 10, 8, scores(40.0), scores(60.0)),
        CurvePoint(0.1, 100, 6, scores(60.0), scores(70.0)),
        CurvePoint(1.0, 1000, 2, scores(75.0), scores(80.0)),
    ]
    curve = LearningCurve("semantic_roles", "f1", points, EpochsNeeded(75.0, 9, 3))
    papers, others, _, earlier = figure_1_learning_curve.claims([curve])
    assert [(check.subject, check.held) for check in papers.checks] == [("semantic roles, 1% against 10%", True)]
    assert [(check.subject, check.held) for check in others.checks] == [("semantic roles, 10% against 100%", False)]
    assert others.source == "not in the paper" and earlier.verdict == "held"
    papers, others, *_ = figure_1_learning_curve.claims([replace(curve, task="entailment")])
    assert not papers.checks and len(others.checks) == 2, "the paper has this comparison for semantic roles alone"
    never = replace(curve, epochs=EpochsNeeded(75.0, 9, None))
    assert figure_1_learning_curve.claims([never])[3].verdict == "not held"


def test_figure_1_notes_epochs_within_the_spread() -> None:
    point = CurvePoint(1.0, 1000, 9, scores(75.0), scores(80.0))
    for std, noted in ((0.5, False), (2.0, True)):
        curve = LearningCurve("semantic_roles", "f1", [point], EpochsNeeded(75.0, 9, 8, std))
        evidence = figure_1_learning_curve.claims([curve])[3].checks[0].evidence
        assert ("within the spread of seeds" in evidence) == noted


def test_the_gain_for_little_data_ignores_shares_at_the_floor() -> None:
    floor = CurvePoint(0.001, 1, 8, scores(40.0), scores(40.5))
    points = [
        floor,
        CurvePoint(0.1, 100, 6, scores(60.0), scores(70.0)),
        CurvePoint(1.0, 1000, 2, scores(75.0), scores(80.0)),
    ]
    epochs = EpochsNeeded(75.0, 9, 3)
    _, _, gain, _ = figure_1_learning_curve.claims([LearningCurve("entailment", "accuracy", points, epochs)])
    (check,) = gain.checks
    assert check.held and check.subject == "entailment, 10% against 100%"
    assert check.evidence == "gain with 0.1%: +0.50 (floor), 10%: +10.00, 100%: +5.00"
    flat = LearningCurve("entailment", "accuracy", [floor, *points[2:]], epochs)
    assert not figure_1_learning_curve.claims([flat])[2].checks, "one share above the floor compares with nothing"


def test_figure_2() -> None:
    rows = [
        MixRow("sentiment", "input", (0.2, 0.5, 0.3), (0, 0, 0), 1.0, 1),
        MixRow("sentiment", "output", (0.1, 0.3, 0.6), (0, 0, 0), 1.0, 1),
    ]
    assert [claim.verdict for claim in figure_2_mix_weights.claims(rows)] == ["held", "not held"]
    unsure = MixRow("sentiment", "input", (0.3, 0.4, 0.3), (0.1, 0.2, 0.1), 1.0, 3)
    (check,) = figure_2_mix_weights.claims([unsure])[0].checks
    assert check.held and check.evidence == (
        "tokens 0.300 ± 0.100, LSTM 1 0.400 ± 0.200, LSTM 2 0.300 ± 0.100; within the spread of seeds"
    )
    one_layer = [MixRow("sentiment", place, (1.0,), (0,), 1.0, 1) for place in ("input", "output")]
    assert known(figure_2_mix_weights.claims(one_layer)) == (), "one layer alone has nothing to weigh"


def test_tables_4_5_and_6() -> None:
    f1 = {
        "WordNet first sense": {"four": 65.94, "ALL": 65.2},
        "layer 1": {"four": 66.0, "ALL": 66.0},
        "layer 2": {"four": 65.0, "ALL": 66.0},
    }
    assert [claim.verdict for claim in known(table_5_senses.claims(f1))] == ["held", "held for 1 of 2", "not held"]
    f1["layer 2, whitened"] = {"four": 66.3, "ALL": 65.6}
    verdicts = {claim.text: claim.verdict for claim in known(table_5_senses.claims(f1))}
    assert verdicts["The same with whitened layers"] == "held"
    (syntax,) = table_6_parts_of_speech.claims({"upos": {"layer 1": 94.0, "layer 2": 93.0}}, 2_000)
    assert syntax.verdict == "held" and "20 of 2,000 tokens" in syntax.checks[0].evidence
    assert known(table_6_parts_of_speech.claims({"upos": {"layer 1": 94.0}}, 2_000)) == ()
    assert table_4_neighbours.claim("play", 60, 40).verdict == "held"
