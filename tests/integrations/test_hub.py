"""The Hub's own client against a small Hub in this process: pushed models load by their names."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "integrations" / "with_hub.py"
REVISION = "0" * 40


class Hub(ThreadingHTTPServer):
    """Repositories in memory; of the Hub's routes those that make, fill and read one."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Route)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.tokens: set[str | None] = set()
        self.unknown: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Route(BaseHTTPRequestHandler):
    """One request."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.tokens.add(self.headers.get("Authorization"))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts == ["api", "repos", "create"]:
            given = json.loads(body)
            name = "/".join(filter(None, (given.get("organization"), given["name"])))
            self.server.repositories.setdefault(name, {})
            self.answer({"url": f"{self.server.address}/{name}", "name": name})
        elif parts == ["api", "validate-yaml"]:  # the head of a model card
            self.answer({"errors": [], "warnings": []})
        elif parts[:2] == ["api", "models"] and parts[4] == "preupload":
            files = json.loads(body)["files"]
            self.answer({"files": [{**one, "uploadMode": "regular", "shouldIgnore": False} for one in files]})
        elif parts[:2] == ["api", "models"] and parts[4] == "commit":
            self.commit("/".join(parts[2:4]), body)
        else:
            self.lost()

    def commit(self, name: str, body: bytes) -> None:
        for entry in map(json.loads, body.splitlines()):
            if entry["key"] == "file":
                assert entry["value"]["encoding"] == "base64"
                content = base64.b64decode(entry["value"]["content"])
                self.server.repositories[name][entry["value"]["path"]] = content
        self.answer({"commitUrl": f"{self.server.address}/{name}/commit/{REVISION}", "commitOid": REVISION})

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"] and "/".join(parts[2:4]) in self.server.repositories:
            files = self.server.repositories["/".join(parts[2:4])]
            if "tree" in parts:
                self.answer([{"type": "file", "path": path, **describe(content)} for path, content in files.items()])
            else:
                name = "/".join(parts[2:4])
                self.answer({"id": name, "sha": REVISION, "siblings": [{"rfilename": path} for path in files]})
        elif "resolve" in parts and "/".join(parts[:2]) in self.server.repositories:
            files = self.server.repositories["/".join(parts[:2])]
            content = files.get("/".join(parts[4:]))
            if content is None:
                self.lost()
            else:
                self.send(content, ETag=f'"{describe(content)["oid"]}"')
        else:
            self.lost()

    do_HEAD = do_GET  # noqa: N815 - the name that http.server asks for

    def answer(self, value: Any) -> None:
        self.send(json.dumps(value).encode(), **{"Content-Type": "application/json"})

    def lost(self) -> None:
        self.server.unknown.append(f"{self.command} {self.path}")
        self.send(b"{}", status=404)

    def send(self, content: bytes, *, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "X-Repo-Commit": REVISION, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def describe(content: bytes) -> dict[str, Any]:
    return {"oid": hashlib.sha1(content).hexdigest(), "size": len(content)}


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def run(hub: Hub, home: Path, *arguments: object) -> str:
    """What a Python prints whose client finds the small Hub by its own setting."""
    environment = {
        **os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_TOKEN": "hf_secret",
        "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }  # fmt: skip
    environment.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stderr[-2000:], hub.unknown)
    return done.stdout


def test_what_is_pushed_opens_by_its_name(hub: Hub, tmp_path: Path) -> None:
    """The example as a user runs it."""
    shown = run(hub, tmp_path, EXAMPLE, "somebody/elmo")
    assert f"pushed to {hub.address}/somebody/elmo" in shown and "the same vectors: True" in shown
    assert {"config.json", "model.safetensors", "vocabulary.txt"} <= set(hub.repositories["somebody/elmo"])
    assert hub.tokens == {"Bearer hf_secret"}


def test_transformers_pushes_the_whole_folder(hub: Hub, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    code = (
        "import sys; from elmo.integrations.transformers import ElmoModel\n"
        "model = ElmoModel.from_pretrained('english')\n"
        "model.save_pretrained(sys.argv[1], push_to_hub=True, repo_id='somebody/saved')\n"
        "model.push_to_hub('somebody/pushed')"
    )
    run(hub, tmp_path / "home", "-c", code, tmp_path / "saved")
    saved = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"modeling_elmo.py", "vocabulary.txt", "softmax.safetensors"} <= saved
    assert set(hub.repositories["somebody/saved"]) == set(hub.repositories["somebody/pushed"]) == saved
