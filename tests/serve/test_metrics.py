"""/metrics as Prometheus reads it, by the parsers of its own Python client."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from elmo.serve.metrics import COUNTERS, GAUGES, HISTOGRAMS, Metrics
from serve.conftest import Server

pytest.importorskip("prometheus_client")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

ACCEPT = {"text/plain": read_text, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5": read_open_metrics}


def samples(families: Any) -> dict[tuple[str, str], float]:
    # The parser of the text format itself adds `_total` to counters.
    found = [each for family in families for each in family.samples]
    return {(each.name.removesuffix("_total"), each.labels.get("le", "")): each.value for each in found}


@pytest.mark.parametrize("accept", ACCEPT)
def test_a_server_gives_the_format_that_is_asked_for(server: Server, accept: str) -> None:
    assert httpx.post(server.url + "/embed", json={"inputs": ["a", "b"]}, timeout=60).status_code == 200
    answer = httpx.get(server.url + "/metrics", headers={"accept": accept}, timeout=60)
    assert answer.headers["content-type"].partition(";")[0] == accept.partition(";")[0]
    found = samples(ACCEPT[accept](answer.text))
    assert {name for name, _ in found} >= {*COUNTERS, *GAUGES, *(f"{name}_bucket" for name in HISTOGRAMS)}
    assert found["te_request_count", ""] >= 1 and found["te_embed_success", ""] >= 2


def test_both_formats_have_the_same_values_from_all_workers() -> None:
    metrics = Metrics(workers=2)
    for metrics.worker in (0, 1):
        metrics.add("te_request_count", 2)
        metrics.set("te_queue_size", 3)
        metrics.observe("te_batch_next_size", 1, 2, 1000)
    text, open_metrics = samples(read_text(metrics.text())), samples(read_open_metrics(metrics.text(open_metrics=True)))
    assert text == open_metrics
    assert text["te_request_count", ""] == 4 and text["te_queue_size", ""] == 6
    assert text["te_batch_next_size_bucket", "1.0"] == 2 and text["te_batch_next_size_bucket", "+Inf"] == 6
    assert text["te_batch_next_size_sum", ""] == 2006
    metrics.forget_gauges(1)
    assert metrics.value("te_queue_size") == 3
