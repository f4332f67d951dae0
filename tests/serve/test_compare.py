"""A second model beside the first: the page's routes take its name, all others use the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from elmo.checkpoints.pretrained import DEFAULT_MODEL
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError
from elmo.serve.engine import open_models
from elmo.serve.settings import ServeSettings
from serve.conftest import Server, save_model


def ask(server: Server, route: str, **body: Any) -> Any:
    answer = httpx.post(server.url + route, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_both_models_are_named(pair: Server, server: Server) -> None:
    info = httpx.get(pair.url + "/info", timeout=60).json()
    assert (info["model_id"], info["compare"]) == ("small", "other")
    assert httpx.get(server.url + "/info", timeout=60).json()["compare"] is None


def test_each_model_answers_for_itself(pair: Server, second_folder: Path) -> None:
    text = "We sat on the bank of the river ."
    layers = [ask(pair, "/senses", inputs=text, **named)["layers"] for named in ({}, {"model": "other"})]
    assert layers == [3, 4]
    vectors = Embedder(second_folder).embed([text.split()])[0].astype(np.float32)
    found = ask(pair, "/neighbours", inputs=text, position=4, number=3, model="small")
    assert len(found["neighbours"]) == 3
    filled = [ask(pair, "/fill", inputs=text, position=4, **named)["joint"] for named in ({}, {"model": "other"})]
    assert filled[0] != filled[1]
    tokens = ask(pair, "/tokenize", inputs=text, model="other", add_special_tokens=False)[0]
    assert len(tokens) == vectors.shape[1]
    embedded = ask(pair, "/embed", inputs=text)  # of the first model
    assert embedded == ask(pair, "/embed", inputs=text, model="other")


def test_maps_of_both_show_the_same_occurrences(pair: Server) -> None:
    maps = [ask(pair, "/map", word="bank", own=["My bank ."], **named) for named in ({}, {"model": "other"})]
    places = [[(each["tokens"], each["position"]) for each in one["occurrences"]] for one in maps]
    assert places[0] == places[1] and len(places[0]) > 8
    assert [len(one["layers"]) for one in maps] == [3, 4]  # the layers above the tokens', and their average
    assert maps[0]["layers"][0]["points"] != maps[1]["layers"][0]["points"]


@pytest.mark.parametrize("route", ["/senses", "/map", "/neighbours", "/fill", "/tokenize"])
def test_another_name_is_refused(pair: Server, route: str) -> None:
    body = {"inputs": ["a bank"] if route == "/map" else "a bank", "word": "bank", "position": 1, "model": "third"}
    answer = httpx.post(pair.url + route, json=body, timeout=60)
    assert answer.status_code == 404
    assert answer.json()["error"] == "`model` is not served here; this server has 'small' and 'other'."


def test_settings_that_do_not_fit_the_models_are_refused(model_folder: Path) -> None:
    with pytest.raises(ConfigError, match="layers='all' gives one vector for each layer, but routes without"):
        open_models(ServeSettings(model=str(model_folder), layers="all"))
    with pytest.raises(ConfigError, match="--compare names the model 'small'"):
        open_models(ServeSettings(model=str(model_folder), compare=str(model_folder)))


def test_two_folders_of_the_same_name_are_served_under_their_paths(model_folder: Path, tmp_path: Path) -> None:
    other = save_model(tmp_path / model_folder.name, seed=6, num_layers=3)
    models = open_models(ServeSettings(model=str(model_folder), compare=str(other)))
    assert models.second is not None
    assert (models.name, models.bilm.config.num_layers) == (str(model_folder), 3)
    assert (models.second.name, models.second.bilm.config.num_layers) == (str(other), 4)
    link = tmp_path / "links" / model_folder.name
    link.parent.mkdir()
    link.symlink_to(model_folder)
    with pytest.raises(ConfigError, match="--compare names the model 'small', as --model does"):
        open_models(ServeSettings(model=str(model_folder), compare=str(link)))


def test_no_name_is_the_bundled_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = save_model(tmp_path / DEFAULT_MODEL, seed=6, num_layers=3)
    monkeypatch.chdir(tmp_path)
    models = open_models(ServeSettings(compare=DEFAULT_MODEL))  # a path, as it exists
    assert models.second is not None
    assert (models.name, models.bilm.config.num_layers) == (DEFAULT_MODEL, 3)
    assert (models.second.name, models.second.bilm.config.num_layers) == (str(here), 4)
    monkeypatch.chdir("/")
    with pytest.raises(ConfigError, match=f"--compare names the model '{DEFAULT_MODEL}'"):
        open_models(ServeSettings(compare=DEFAULT_MODEL))
