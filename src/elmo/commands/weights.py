"""elmo weights: what each layer counts for in trained task models (paper, figure 2)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands.measured import Measured, MeasuredTable, deliver, messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elmo.analysis.mix_weights import MixRow


def weights(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders that elmo task train wrote, or cells of elmo ablate."),
    ],
    plot: Annotated[Path, typer.Option("--plot", "-o", help="The heat map: .png, .svg or .pdf.")] = Path("weights.png"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the weights to this file.")] = None,
) -> None:
    """Draw the softmax weights that task models learned for the layers, as a heat map (figure 2)."""
    from elmo.analysis import plots
    from elmo.analysis.mix_weights import read_mixes
    from elmo.analysis.mix_weights_plot import draw_mixes

    plots.check_name(plot)
    rows = read_mixes(runs)
    plots.save(draw_mixes(rows), plot)
    title = "What each layer counts for"
    data = {"rows": [{**asdict(row), "label": row.label} for row in rows]}
    deliver("weights", title, Measured([mix_table(rows, title)], data), json_file=json_file, folder=None)
    messages.print(f"wrote {plot}")


def mix_table(rows: Sequence[MixRow], title: str) -> MeasuredTable:
    """A row for each task and place."""
    from elmo.analysis.mix_weights import layer_labels

    columns = ["", *layer_labels(len(rows[0].weights)), "gamma", "seeds"]
    cells = [
        [row.label, *(f"{weight:.3f}" for weight in row.weights), f"{row.gamma:.2f}", str(row.seeds)] for row in rows
    ]
    return MeasuredTable(title, columns, cells, "The softmax weights sum to one; gamma scales the sum.")
