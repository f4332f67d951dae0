"""elmo paper: the tables and figures of the paper, for any model."""

from __future__ import annotations

import typer

from elmo.commands.paper.card import card
from elmo.commands.paper.probes import context, pos, senses
from elmo.commands.paper.report import report
from elmo.commands.paper.training import layers, placement, samples, tasks, weights

app = typer.Typer(help="Reproduce the paper's tables and figures.", no_args_is_help=True, add_completion=False)
for command in (report, tasks, layers, placement, senses, pos, samples, weights, context, card):
    app.command()(command)
