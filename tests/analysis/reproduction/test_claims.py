"""Claims are held or not by the figures alone, and small differences are called that."""

from elmo.analysis.ablation import ALL, AVERAGE, BASELINE, BOTH, FIRST_TWO, INPUT, LAST, OUTPUT, Ablation, Scores
from elmo.analysis.learning_curve import CurvePoint, EpochsNeeded, LearningCurve
from elmo.analysis.mix_weights import MixRow
from elmo.analysis.reproduction import claims
from elmo.tasks.table import PAPER, TableRow


def scores(*values: float) -> Scores:
    return Scores(values, (), 1.0)


def ablation(task: str, **values: float) -> Ablation:
    return Ablation(task, "f1", {name: scores(value) for name, value in values.items()})


def row(task: str, baseline: float, elmo: float) -> TableRow:
    return TableRow(task, "f1", {"mean": baseline, "std": 0}, {"mean": elmo, "std": 0}, {}, {}, PAPER[task])


def test_table_1() -> None:
    better, as_much = claims.elmo_helps([row("named_entities", 90.0, 91.0), row("sentiment", 50.0, 55.0)])
    assert better.verdict == "held"
    assert [check.held for check in as_much.checks] == [False, True] and as_much.verdict == "held for 1 of 2"
    assert as_much.checks[0].evidence == "10.0% of the error, in the paper 21%"
    assert claims.elmo_helps([row("sentiment", 50.0, 49.0)])[0].verdict == "not held"


def test_table_2() -> None:
    figures = {BASELINE: 80.0, LAST: 84.0, AVERAGE: 84.5, ALL: 85.0, FIRST_TWO: 84.6}
    verdicts = [claim.verdict for claim in claims.layers_matter([ablation("entailment", **figures)])]
    assert verdicts == ["held"] * 4
    reverse = claims.layers_matter([ablation("entailment", **{**figures, LAST: 86.0, FIRST_TWO: 84.0})])
    assert [claim.verdict for claim in reverse] == ["not held", "held", "held", "not held"]


def test_table_3_asks_each_task_for_its_own() -> None:
    roles = ablation("semantic_roles", **{INPUT: 84.7, BOTH: 84.3, OUTPUT: 80.9})
    assert [claim.verdict for claim in claims.places_matter([roles])] == ["held", "held"]
    pairs = ablation("entailment", **{INPUT: 88.9, BOTH: 89.5, OUTPUT: 90.0})
    assert [claim.verdict for claim in claims.places_matter([roles, pairs])] == ["held", "held", "held", "not held"]


def test_a_difference_within_the_spread_is_called_that() -> None:
    layers = {name: scores(80.0, 84.0) for name in (BASELINE, LAST, AVERAGE, FIRST_TWO)} | {ALL: scores(81.0, 84.0)}
    claim = claims.layers_matter([Ablation("entailment", "f1", layers)])[0]
    assert claim.verdict == "held" and "within the spread of seeds" in claim.checks[0].evidence


def test_figure_1_compares_a_share_with_ten_times_as_much() -> None:
    points = [
        CurvePoint(0.01, 10, scores(40.0), scores(60.0)),
        CurvePoint(0.1, 100, scores(60.0), scores(70.0)),
        CurvePoint(1.0, 1000, scores(75.0), scores(80.0)),
    ]
    curve = LearningCurve("semantic_roles", "f1", points, EpochsNeeded(75.0, 9, 3))
    tenth, earlier = claims.less_data([curve])
    assert [check.subject for check in tenth.checks] == [
        "semantic roles, 1% against 10%",
        "semantic roles, 10% against 100%",
    ]
    assert [check.held for check in tenth.checks] == [True, False] and earlier.verdict == "held"
    never = LearningCurve("semantic_roles", "f1", points, EpochsNeeded(75.0, 9, None))
    assert claims.less_data([never])[1].verdict == "not held"


def test_figure_2() -> None:
    rows = [
        MixRow("sentiment", "input", (0.2, 0.5, 0.3), (0, 0, 0), 1.0, 1),
        MixRow("sentiment", "output", (0.1, 0.3, 0.6), (0, 0, 0), 1.0, 1),
    ]
    assert [claim.verdict for claim in claims.weights_are_used(rows)] == ["held", "not held"]
    one_layer = [MixRow("sentiment", place, (1.0,), (0,), 1.0, 1) for place in ("input", "output")]
    assert claims.weights_are_used(one_layer) == [], "one layer alone has nothing to weigh"


def test_tables_4_5_and_6() -> None:
    f1 = {
        "WordNet first sense": {"four": 65.94, "ALL": 65.2},
        "layer 1": {"four": 66.0, "ALL": 66.0},
        "layer 2": {"four": 65.0, "ALL": 66.0},
    }
    assert [claim.verdict for claim in claims.meaning_is_higher(f1)] == ["held", "held for 1 of 2", "not held"]
    f1["layer 2, whitened"] = {"four": 66.3, "ALL": 65.6}
    verdicts = {claim.text: claim.verdict for claim in claims.meaning_is_higher(f1)}
    assert verdicts["The same with whitened layers"] == "held"
    assert claims.syntax_is_lower({"upos": {"layer 1": 94.0, "layer 2": 93.0}})[0].verdict == "held"
    assert claims.syntax_is_lower({"upos": {"layer 1": 94.0}}) == []
    assert claims.neighbours_share_the_sense("play", 60, 40).verdict == "held"
