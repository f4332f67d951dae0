"""The options that several commands share, with their help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import typer

from elmo.errors import ConfigError
from elmo.settings import Settings
from elmo.text.tokenizer import TOKENIZERS

if TYPE_CHECKING:
    from elmo.embedding.embedder import Embedder
    from elmo.pretrain.scoring import Scorer
    from elmo.text.inputs import Sentence

Inputs = Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, quoted patterns, or - for stdin.")]
Model = Annotated[
    str | None,
    typer.Option(
        "-m", "--model", help="The model: a path, a bundled, published or Hub name. Default: the bundled model."
    ),
]
CompareTo = Annotated[
    list[str] | None,
    typer.Option(
        "--compare-to",
        help="Another model to compare with, on the words that all vocabularies contain; may be given several times.",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="The device that the model runs on, such as cpu or cuda:1. Default: a GPU if any.")
]
Threads = Annotated[int, typer.Option(min=0, help="The number of CPU threads; 0 leaves it to torch.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of all random choices.")]
State = Annotated[
    str, typer.Option(help="The state that a sentence starts from: reset (zeros), warm (the model's own) or carry.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
Count = Annotated[int, typer.Option("-n", "--count", min=1, help="How many to print.")]

InputFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help="text, wikipedia, lines, tokens, conllu, csv, tsv, jsonl or parquet; auto chooses by the file's name.",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        help="The column or field with the text. Default: text, sentence or tokens. For a table without a header: the "
        "number of the column, from 1."
    ),
]
IdColumn = Annotated[str | None, typer.Option(help="The column or field whose value becomes the id in the output.")]
Keep = Annotated[
    list[str] | None, typer.Option(help="A column or field to copy to the output; may be given several times.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(help=f"The tokenizer: {', '.join(TOKENIZERS)}. Default: the model's own; in elmo tokenize, ptb-like."),
]

Layers = Annotated[
    str,
    typer.Option(
        help="all, average, top, concat, a layer's index (0 is the token layer), or weights such as 0.2,0.3,0.5."
    ),
]
Pool = Annotated[
    str | None, typer.Option("--pool", help="mean or max, for one vector per sentence. Default: one per token.")
]
Dtype = Annotated[str, typer.Option(help="The number type of the output: float32 or float16.")]
Precision = Annotated[
    str,
    typer.Option(
        help="The precision of the weights in memory: float32, or (faster, less exact) float16, bfloat16 or int8."
    ),
]
Align = Annotated[
    str | None,
    typer.Option(
        help="Map the vectors into the space of English: the language of an ai2-aligned model, such as de, or the file "
        "of a matrix."
    ),
]
Compress = Annotated[bool, typer.Option("--compress", help="Write smaller files, which takes longer.")]
BatchTokens = Annotated[int, typer.Option(help="The tokens in a batch; fewer need less memory.")]

OutputFolder = Annotated[
    Path | None, typer.Option("-o", "--output", help="The folder for Markdown, JSON and figures. Default: no files.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting, such as training.epochs=2; may be given several times."),
]
Preset = Annotated[str, typer.Option(help="The preset: quick (minutes on two cores) or paper (the paper's sizes).")]
Config = Annotated[Path | None, typer.Option("--config", help="Settings in TOML. Default: the preset's.")]
Vectors = Annotated[
    str | None, typer.Option(help="Static word vectors, a GloVe or word2vec text file. Default: learned with the task.")
]


@dataclass(frozen=True)
class ComputeOptions:
    """What a model runs on."""

    device: Device = None
    threads: Threads = 0


@dataclass(frozen=True)
class ModelOptions(ComputeOptions):
    """The model, and what it runs on."""

    model: Model = None

    @property
    def name(self) -> str:
        """The name that messages use."""
        from elmo.checkpoints.pretrained import DEFAULT_MODEL

        return self.model or DEFAULT_MODEL

    def embedder(self, **choices: Any) -> Embedder:
        """The model as an embedder; `choices` are those of `Embedder`."""
        from elmo.bilm.device import choose_device
        from elmo.embedding.embedder import Embedder

        set_threads(self.threads)
        device = choose_device(self.device, precision=choices.get("precision", "float32"))
        embedder = Embedder(self.model, **choices)
        embedder.model.to(device)
        return embedder

    def scorer(self, state: str) -> Scorer:
        """The model with its softmax."""
        from elmo.bilm.device import choose_device
        from elmo.checkpoints.pretrained import load
        from elmo.pretrain.scoring import Scorer

        set_threads(self.threads)
        return Scorer(load(self.model).to(choose_device(self.device)), state=state, source=self.name)

    def others(self, compare_to: Sequence[str]) -> list[ModelOptions]:
        """The models of --compare-to, on the same device."""
        check_different("--compare-to", [self.name, *compare_to])
        return [replace(self, model=name) for name in compare_to]


@dataclass(frozen=True)
class TextOptions:
    """How files become tokens."""

    input_format: InputFormat = "auto"
    column: Column = None
    tokenizer: Tokenizer = None

    def read(self, inputs: Sequence[str], tokenizer: str, *, offsets: bool = False) -> Iterator[Sentence]:
        """The sentences; `tokenizer` is used unless the user chose another."""
        from elmo.text.inputs import RowOptions, read_sentences

        tokenizer, columns = self.tokenizer or tokenizer, RowOptions(self.column)
        return read_sentences(inputs, format=self.input_format, tokenizer=tokenizer, columns=columns, offsets=offsets)


@dataclass(frozen=True)
class VectorOptions:
    """Which vectors to compute, and how; the names are those of `Embedder`."""

    layers: Layers = "all"
    pooling: Pool = None
    dtype: Dtype = "float32"
    precision: Precision = "float32"
    align: Align = None
    batch_tokens: BatchTokens = 4096


def settings_group(kind: type[Settings], *names: str) -> type[Any]:
    """A group of options with the names, types, defaults and help of some settings, for `option_groups`."""
    hints = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}
    rows = []
    for name in names:
        hint, help = hints[name], known[name].metadata["help"]
        if get_origin(hint) is Literal:  # the settings class checks the choices
            hint, help = str, f"{help.rstrip('.')}: {', '.join(get_args(hint))}."
        option = Annotated[hint, typer.Option(help=help)]  # type: ignore[valid-type]
        rows.append((name, option, field(default=known[name].default)))
    return make_dataclass(f"{kind.__name__}Options", rows, frozen=True)


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take frozen dataclasses of options: each field becomes an option of the command.

    @app.command()
    @option_groups
    def layers(name: TaskName, runs: RunOptions) -> None: ...
    """
    groups: dict[str, type[Any]] = {}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if not is_dataclass(parameter.annotation):
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[name] = group = cast(type[Any], parameter.annotation)
        hints = get_type_hints(group, include_extras=True)
        for each in fields(group):
            default = inspect.Parameter.empty if each.default is MISSING else each.default
            kind = inspect.Parameter.KEYWORD_ONLY
            flat.append(inspect.Parameter(each.name, kind, default=default, annotation=hints[each.name]))

    @wraps(command)
    def grouped(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    grouped.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return grouped


def separated(names: str) -> tuple[str, ...]:
    """The names of an option that takes several, separated by commas."""
    return tuple(name.strip() for name in names.split(","))


def check_different(option: str, models: Sequence[str]) -> None:
    """Refuse an option that names a model again."""
    if len(set(models)) < len(models):
        raise ConfigError(f"{option} names a model twice ({', '.join(models)}); expected different models.")


def prepare_torch(threads: int) -> None:
    """Set torch up for training."""
    import torch

    # Denormal numbers, which are frequent in training, are slower by a factor of ten and more.
    torch.set_flush_denormal(True)
    set_threads(threads)


def set_threads(threads: int) -> None:
    """Set torch's number of CPU threads; 0 leaves the choice to torch."""
    if threads:
        import torch

        torch.set_num_threads(threads)
