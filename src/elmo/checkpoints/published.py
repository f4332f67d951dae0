"""Published models by name: the catalogue, and their files in the cache.

`published.toml` is the catalogue. A model is downloaded once into `ELMO_HOME/models/NAME`, verified (every tensor must
have the shape that its options describe) and marked as verified; after that the network is not used for it. Files that
a user puts there count as downloaded. A zip is unpacked and then deleted.

    models/efml-german/142.zip.sha256    the digest of the download; it stays when the model is removed
    models/efml-german/verified.json     written last
    models/efml-german/model/            the unpacked zip; hdf5 models are beside verified.json
"""

from __future__ import annotations

import errno
import json
import shutil
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elmo.checkpoints.archive import unpack
from elmo.checkpoints.checkpoint import empty_bilm, fill
from elmo.checkpoints.detect import open_and_name
from elmo.errors import CheckpointError
from elmo.storage.atomic import write_atomic
from elmo.storage.digest import file_digest
from elmo.storage.download import (
    DownloadError,
    cache_home,
    digest_file,
    fetch,
    recorded_digest,
    write_digest,
    writing_to_cache,
)
from elmo.storage.locks import locked
from elmo.storage.paths import exists

_CATALOGUE = Path(__file__).with_name("published.toml")
_VERIFIED = "verified.json"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class PublishedModel:
    """An entry of the catalogue; unknown facts are empty strings."""

    name: str
    collection: str
    language: str
    addresses: tuple[str, ...]
    page: str
    license: str
    tried: bool
    """Whether a model of this collection has been downloaded from its address and opened with this package."""
    shape: str = ""
    """Layers x cells / projection."""
    parameters: str = ""
    text: str = ""
    size: str = ""
    """Of the download."""
    mapping: str = ""
    """Address of the matrix that maps its vectors into English's space."""

    @property
    def folder(self) -> Path:
        return models_folder() / self.name

    @property
    def files(self) -> tuple[Path, ...]:
        """The downloaded files, in the order of `addresses`."""
        return tuple(self.folder / address.rsplit("/", 1)[-1] for address in self.addresses)

    @property
    def path(self) -> Path:
        """What `elmo.load` opens once the model is verified."""
        return self.folder / "model" if self.files[0].suffix == ".zip" else self.folder

    @property
    def is_cached(self) -> bool:
        return exists(self.folder / _VERIFIED)


def models_folder() -> Path:
    return cache_home() / "models"


@cache
def catalogue() -> dict[str, PublishedModel]:
    """Every published model by its name."""
    models = {}
    for collection, shared in tomllib.loads(_CATALOGUE.read_text(encoding="utf-8")).items():
        for key, own in shared["models"].items():
            fields = {**shared, **own}
            base, of_id = fields.pop("base"), {"id": fields.pop("id", "")}
            addresses = tuple(base + file.format(**of_id) for file in fields.pop("files"))
            mapping = fields.pop("mapping", "").format(**of_id)
            for name in ("title", "models"):
                del fields[name]
            name = f"{collection}-{key}"
            models[name] = PublishedModel(
                name, collection, addresses=addresses, mapping=mapping and base + mapping, **fields
            )
    return models


def collection_titles() -> dict[str, str]:
    return {name: shared["title"] for name, shared in tomllib.loads(_CATALOGUE.read_text(encoding="utf-8")).items()}


def obtain(model: PublishedModel, *, local_files_only: bool = False) -> Path:
    """The path that `elmo.load` opens: the cached model, downloaded and verified first if necessary."""
    if model.is_cached:
        return model.path
    if local_files_only:
        raise CheckpointError(f"{model.name} is not in {model.folder}. Leave out local_files_only to download it.")
    with writing_to_cache(model.folder), locked(model.folder):
        if not model.is_cached:
            _fetch_missing(model)
            _verify(model)
    return model.path


def _fetch_missing(model: PublishedModel) -> None:
    pairs = zip(model.addresses, model.files, strict=True)
    missing = [(address, file) for address, file in pairs if not file.exists()]
    # If the process was killed after unpacking, the zip may be gone.
    for address, file in missing if model.path == model.folder or not model.path.exists() else []:
        try:
            fetch(address, file)
        except DownloadError as error:
            left = " and ".join(address for address, file in missing if not file.exists())
            raise DownloadError(error.args[0], f"By hand: save {left} in {model.folder}") from error


def obtain_mapping(model: PublishedModel) -> Path:
    """The file of an aligned model's mapping matrix, downloaded first if necessary."""
    return fetch(model.mapping, model.folder / model.mapping.rsplit("/", 1)[-1])


def remove(model: PublishedModel) -> int:
    """Delete a model from the cache, except for the digests of its files; returns the bytes freed."""
    with locked(model.folder):
        freed = folder_size(model.folder)
        # The mark is deleted first, so that the rest is not read as a model after an interruption.
        (model.folder / _VERIFIED).unlink(missing_ok=True)
        for path in model.folder.iterdir() if model.folder.exists() else ():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix != ".sha256":
                path.unlink()
    return freed


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _verify(model: PublishedModel) -> None:
    """Unpack the files and open them strictly; delete the download if it is not a model."""
    digests = {file.name: file_digest(file) for file in model.files if file.exists()}
    try:
        for archive in model.files:
            if archive.suffix == ".zip" and not model.path.exists():
                unpack(archive, model.path)
        opened = open_and_name(model.path)
        fill(empty_bilm(opened.checkpoint.config), opened.checkpoint.tensors, source=str(model.path))
    except CheckpointError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _DISK_FULL:
            raise
        shutil.rmtree(model.folder / "model", ignore_errors=True)
        # A file that the user put there by hand is not deleted.
        downloaded = [file for file in model.files if file.exists() and recorded_digest(file) == digests[file.name]]
        for file in downloaded:
            file.unlink(missing_ok=True)
            digest_file(file).unlink()
        deleted = "It was deleted; try again later" if downloaded else f"Delete it from {model.folder}"
        raise CheckpointError(
            f"The download from {' and '.join(model.addresses)} is not an ELMo model that can be opened: {error} "
            f"{deleted}, or see {model.page}."
        ) from error
    for file in model.files:
        if file.exists():
            write_digest(file, digests[file.name])
    write_atomic(model.folder / _VERIFIED, json.dumps({"format": opened.format, "sha256": digests}, indent=2) + "\n")
    for file in model.files:
        if file.suffix == ".zip":
            file.unlink(missing_ok=True)
