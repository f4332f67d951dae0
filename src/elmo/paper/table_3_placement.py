"""Table 3: at which place of a task model ELMo helps: the input of its RNN, the output, or both."""

from __future__ import annotations

from elmo.paper.ablation import CHOSEN_ON_DEV, AblationTable, Order, Variant

TASKS = "ablated"

INPUT, BOTH, OUTPUT = "input", "input and output", "output"
_ROLES, _ATTENTION = ("semantic_roles",), ("question_answering", "entailment")

TABLE = AblationTable(
    number=3,
    title="where ELMo is added",
    text=f"At the input of the task's RNN, at its output, or both. {CHOSEN_ON_DEV}",
    command="placement",
    variants=(
        Variant(INPUT, ('elmo.place="input"',)),
        Variant(BOTH, ('elmo.place="both"',)),
        Variant(OUTPUT, ('elmo.place="output"',)),
    ),
    published={
        "question_answering": (None, 85.6, None),
        "entailment": (88.9, 89.5, 88.7),
        "semantic_roles": (84.7, 84.3, 80.9),
    },
    orders=(
        Order("For semantic roles the input is a better place than the output", INPUT, OUTPUT, _ROLES),
        Order("For semantic roles the input alone is better than both places", INPUT, BOTH, _ROLES),
        Order("With attention above the RNN, both places are better than the input alone", BOTH, INPUT, _ATTENTION),
        Order("With attention above the RNN, both places are better than the output alone", BOTH, OUTPUT, _ATTENTION),
    ),
)
make = TABLE.make
