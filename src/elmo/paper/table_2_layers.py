"""Table 2: which layers a task needs."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.paper.ablation import Ablation, AblationTable, Variant
from elmo.paper.section import Check, Claim, against, plain_name

TRAINS_TASKS = True

BASELINE = "no ELMo"
LAST = "last only"
AVERAGE = "all, lambda 1"
ALL = "all, lambda 0.001"
FIRST_TWO = "first two, lambda 0.001"


def claims(found: Sequence[Ablation]) -> list[Claim]:
    """What the paper says about the layers."""
    first_two = tuple(
        Check(
            plain_name(each.task),
            each.scores[FIRST_TWO].mean >= each.scores[ALL].mean - 0.5,
            against(each.scores[FIRST_TWO], each.scores[ALL], ("first two", "all")),
        )
        for each in found
    )

    def pairs(better: str, worse: str) -> tuple[Check, ...]:
        return tuple(each.check(better, worse) for each in found)

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


TABLE = AblationTable(
    title="Table 2: which layers",
    text="The same task models with no ELMo, with the biLM's last layer only, and with mixes of several layers.",
    command="layers",
    variants=(
        Variant(BASELINE, with_elmo=False),
        Variant(LAST, ("elmo.layers=[-1]",)),
        Variant(AVERAGE, ("elmo.penalty=1.0",)),
        Variant(ALL, ("elmo.penalty=0.001",)),
        # Not in the paper: a biLM without its highest layer is 19-44% faster, and for several tasks as good.
        Variant(FIRST_TWO, ("elmo.layers=[0, 1]", "elmo.penalty=0.001")),
    ),
    published={
        "question_answering": {BASELINE: 80.8, LAST: 84.7, AVERAGE: 85.0, ALL: 85.2},
        "entailment": {BASELINE: 88.1, LAST: 89.1, AVERAGE: 89.3, ALL: 89.5},
        "semantic_roles": {BASELINE: 81.6, LAST: 84.1, AVERAGE: 84.6, ALL: 84.8},
    },
    claims=claims,
)
make = TABLE.make
