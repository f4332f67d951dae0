"""The Hugging Face Hub: names -> folders, folders -> repositories.

Its own `ModelHubMixin` is not used: it wants to own the constructor and `config.json`, and ours hold more than that.
"""

from __future__ import annotations

from pathlib import Path

from elmo.errors import CheckpointError

# Every file that one of the known formats consists of; the rest of a repository stays where it is.
MODEL_FILES = [
    "*.json", "*.safetensors", "*.txt", "*.txt.gz", "*.md", "*.hdf5", "*.h5",
    "*.dic", "*.pkl", "checkpoint", "*.index", "*.data-*",
]  # fmt: skip


def fetch(
    repo_id: str, *, revision: str | None = None, token: str | None = None, local_files_only: bool = False
) -> Path:
    """The local folder of a Hub model; downloads what is not in the cache yet."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            repo_id, revision=revision, token=token, local_files_only=local_files_only, allow_patterns=MODEL_FILES
        )
    except HFValidationError as error:
        raise CheckpointError(
            f"No model at {repo_id!r}: there is no such file or folder, no bundled model has that name, and it is not "
            "a Hugging Face Hub name (owner/name). Check the path."
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"No model at {repo_id!r}: there is no such file or folder here, and the Hugging Face Hub did not give it "
            f"({type(error).__name__}: {reason}). Check the path or the name; offline, give a folder."
        ) from error
    return Path(folder)


def push(
    folder: Path, repo_id: str, *, private: bool = False, token: str | None = None, message: str = "Upload ELMo model"
) -> str:
    """Make the repository if need be, upload the folder, return its address."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    address = api.create_repo(repo_id, private=private, exist_ok=True)
    api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message)
    return str(address)
