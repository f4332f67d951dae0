"""elmo models: what is bundled, cached and published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.commands import options

if TYPE_CHECKING:
    from elmo.checkpoints.published import PublishedModel


def models(
    search: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Words that the name, the language or the description must contain."),
    ] = None,
    remove: Annotated[str | None, typer.Option(metavar="NAME", help="The model to delete from the cache.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the models that `-m` and elmo.load open by name. Published ones are downloaded at their first use."""
    from elmo.checkpoints.published import catalogue, models_folder

    if remove is not None:
        _remove(remove)
        return
    wanted = [word.casefold() for word in search or []]
    bundled = [facts for facts in _bundled() if _matches(wanted, f"{facts['name']} {facts['language']}")]
    found = [
        model
        for model in catalogue().values()
        if _matches(wanted, f"{model.name} {model.language} {model.text} {model.shape} {' '.join(model.addresses)}")
    ]
    if as_json:
        typer.echo(json.dumps([*bundled, *map(_published, found)], indent=2, ensure_ascii=False))
        return
    if not bundled and not found:
        _complain(" ".join(search or []))
    _print_table(bundled, found)
    for collection in dict.fromkeys(model.collection for model in found):
        _print_collection(collection, next(model for model in found if model.collection == collection))
    typer.echo(f"\ncache: {models_folder()} (ELMO_HOME moves it)")


def _matches(words: list[str], text: str) -> bool:
    return all(word in text.casefold() for word in words)


def _bundled() -> list[dict[str, Any]]:
    from elmo.checkpoints import native
    from elmo.checkpoints.pretrained import BUNDLED_MODELS, bundled_models
    from elmo.checkpoints.published import folder_size
    from elmo.storage.json_file import read_json_object

    entries = []
    for name in bundled_models():
        folder = BUNDLED_MODELS / name
        config = read_json_object(folder / native.CONFIG_FILE, expected="a bundled model's config")
        lstm, card = config["bilm"]["lstm"], config.get("card", {})
        entries.append(
            {
                "name": name,
                "status": "bundled",
                "language": card.get("language", ""),
                "shape": f"{lstm['num_layers']}x{lstm['cell_dim']}/{lstm['projection_dim']}",
                "size": _size(folder_size(folder)),
                "text": card.get("text", ""),
                "license": card.get("license", ""),
                "path": str(folder),
            }
        )
    return entries


def _published(model: PublishedModel) -> dict[str, Any]:
    facts = model.to_dict()
    path = facts.pop("cached")
    return {"name": facts.pop("name"), "status": "cached" if path else "published", **facts, "path": path}


def _print_table(bundled: list[dict[str, Any]], found: list[PublishedModel]) -> None:
    from elmo.checkpoints.published import folder_size

    rows = [(one["name"], one["status"], one["language"], one["shape"], one["size"], one["text"]) for one in bundled]
    for model in found:
        size = _size(folder_size(model.folder)) if model.is_cached else model.size
        status = "cached" if model.is_cached else "published"
        rows.append((model.name, status, model.language, model.shape, size, model.text))
    header = ("name", "status", "language", "shape", "size", "text")
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_collection(name: str, model: PublishedModel) -> None:
    from elmo.checkpoints.published import collection_titles

    untried = "" if model.tried else " The addresses are its authors'; they have not been tried with this package."
    typer.echo(f"\n{name}: {collection_titles()[name]}")
    typer.echo(f"  {model.page}; license: {model.license}.{untried}")


def _remove(name: str) -> None:
    from elmo.checkpoints.published import catalogue, remove
    from elmo.errors import ConfigError

    if name not in catalogue():
        _complain(name)
    model = catalogue()[name]
    if not model.folder.exists():
        raise ConfigError(f"{name} is not in the cache ({model.folder}); there is nothing to remove.")
    typer.echo(f"removed {name}: {_size(remove(model))} in {model.folder}")


def _complain(name: str) -> None:
    from difflib import get_close_matches

    from elmo.checkpoints.published import catalogue
    from elmo.errors import ConfigError

    known = {word: word for model in catalogue().values() for word in (model.name, model.language)}
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"No published model matches {name!r}.{suggestion} `elmo models` lists them all.")


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
