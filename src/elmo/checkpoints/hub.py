"""Download models from the Hugging Face Hub, and upload them.

huggingface_hub downloads, with its own cache (`HF_HOME`) and locks; `ELMO_OFFLINE` applies too. Its `ModelHubMixin` is
not used, because it prescribes the constructor and the content of `config.json`.
"""

from __future__ import annotations

from pathlib import Path

from elmo.errors import CheckpointError
from elmo.storage.download import is_offline

# The files of all known formats; the rest of a repository is not downloaded.
MODEL_FILES = [
    "*.json", "*.safetensors", "*.txt", "*.txt.gz", "*.md", "*.hdf5", "*.h5",
    "*.dic", "*.pkl", "checkpoint", "*.index", "*.data-*",
]  # fmt: skip


def fetch(
    repo_id: str, *, revision: str | None = None, token: str | None = None, local_files_only: bool = False
) -> Path:
    """The local folder of a Hub model; downloads what is not in the cache yet."""
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            repo_id, revision=revision, token=token, local_files_only=local_files_only or is_offline(),
            allow_patterns=MODEL_FILES,
        )  # fmt: skip
    except Exception as error:  # its HTTP library, and with it the errors, depends on the version of huggingface_hub
        raise CheckpointError(
            f"No model called {repo_id!r}: there is no such file or folder here, and the Hugging Face Hub did not "
            f"return it ({_reason(error)}). Check the path or the name; offline, download https://huggingface.co/"
            f"{repo_id} elsewhere and give the folder."
        ) from error
    return Path(folder)


def push(folder: Path, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
    """Create the repository if necessary, upload the folder, return its address."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload ELMo model")
    except Exception as error:
        raise CheckpointError(
            f"Cannot upload to {repo_id!r} ({_reason(error)}). Expected a repository owner/name of the Hugging Face "
            "Hub that you may write to; `hf auth login` stores your token."
        ) from error
    return str(address)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
