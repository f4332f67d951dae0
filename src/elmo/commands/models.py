"""elmo models: what is bundled, cached and published."""

from __future__ import annotations

import json
from dataclasses import asdict
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from elmo.commands import options
from elmo.errors import ConfigError

_COLUMNS = ("name", "status", "language", "shape", "size", "text")


def models(
    search: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Words that the name, the language or the description must contain."),
    ] = None,
    remove: Annotated[str | None, typer.Option(metavar="NAME", help="The model to delete from the cache.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the models that `-m` and elmo.load open by name. Published ones are downloaded at their first use."""
    from elmo.checkpoints.published import collection_titles, models_folder

    if remove is not None:
        _remove(remove)
        return
    wanted = [word.casefold() for word in search or []]
    found = [facts for facts in (*_bundled(), *_published()) if _matches(wanted, facts)]
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if not found:
        raise _unknown(" ".join(search or []))
    rows = [_COLUMNS, *([facts[name] for name in _COLUMNS] for facts in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    for name, facts in {facts["collection"]: facts for facts in found if "collection" in facts}.items():
        untried = (
            "" if facts["tried"] else " The addresses are its authors'; they have not been tried with this package."
        )
        typer.echo(f"\n{name}: {collection_titles()[name]}")
        typer.echo(f"  {facts['page']}; license: {facts['license']}.{untried}")
    typer.echo(f"\ncache: {models_folder()} (ELMO_HOME moves it)")


def _matches(words: list[str], facts: dict[str, Any]) -> bool:
    searched = [facts[name] for name in ("name", "language", "text", "shape")] + list(facts.get("addresses", ()))
    text = " ".join(searched).casefold()
    return all(word in text for word in words)


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


def _published() -> list[dict[str, Any]]:
    from elmo.checkpoints.published import catalogue, folder_size

    entries = []
    for model in catalogue().values():
        entry = {**asdict(model), "status": "published", "path": None}
        if model.is_cached:
            entry |= {"status": "cached", "path": str(model.path), "size": _size(folder_size(model.folder))}
        entries.append(entry)
    return entries


def _remove(name: str) -> None:
    from elmo.checkpoints.published import catalogue, remove

    model = catalogue().get(name)
    if model is None:
        raise _unknown(name)
    if not model.folder.exists():
        raise ConfigError(f"{name} is not in the cache ({model.folder}); there is nothing to remove.")
    typer.echo(f"removed {name}: {_size(remove(model))} in {model.folder}")


def _unknown(name: str) -> ConfigError:
    from elmo.checkpoints.published import catalogue

    known = {word: word for model in catalogue().values() for word in (model.name, model.language)}
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"No published model matches {name!r}.{suggestion} `elmo models` lists them all.")


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
