"""Table 3: at which place of a task model ELMo helps: the input of its RNN, the output, or both."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.paper.ablation import Ablation, AblationTable, Variant
from elmo.paper.section import Check, Claim

TRAINS_TASKS = True

INPUT, BOTH, OUTPUT = "input", "input and output", "output"


def claims(found: Sequence[Ablation]) -> list[Claim]:
    """What the paper says about the places; each task is asked for its own."""

    def pairs(tasks: tuple[str, ...], better: str, worse: str) -> tuple[Check, ...]:
        return tuple(each.check(better, worse) for each in found if each.task in tasks)

    roles, attention = ("semantic_roles",), ("question_answering", "entailment")
    return [
        Claim(
            "For semantic roles the input is the better place than the output", "table 3", pairs(roles, INPUT, OUTPUT)
        ),
        Claim("For semantic roles the input alone is better than both places", "table 3", pairs(roles, INPUT, BOTH)),
        Claim(
            "With attention above the RNN, both places are better than the input alone",
            "table 3",
            pairs(attention, BOTH, INPUT),
        ),
        Claim(
            "With attention above the RNN, both places are better than the output alone",
            "table 3",
            pairs(attention, BOTH, OUTPUT),
        ),
    ]


TABLE = AblationTable(
    title="Table 3: where ELMo is put in",
    text="At the input of the task's RNN, at its output, or both.",
    command="placement",
    variants=(
        Variant(INPUT, ('elmo.place="input"',)),
        Variant(BOTH, ('elmo.place="both"',)),
        Variant(OUTPUT, ('elmo.place="output"',)),
    ),
    published={
        "question_answering": {INPUT: None, BOTH: 85.6, OUTPUT: None},
        "entailment": {INPUT: 88.9, BOTH: 89.5, OUTPUT: 88.7},
        "semantic_roles": {INPUT: 84.7, BOTH: 84.3, OUTPUT: 80.9},
    },
    claims=claims,
)
make = TABLE.make
