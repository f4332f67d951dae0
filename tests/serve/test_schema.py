"""Schemathesis: whatever the OpenAPI document allows, and much that it forbids, is answered as documented."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from serve.conftest import Server

pytestmark = pytest.mark.slow

schemathesis = pytest.importorskip("schemathesis")


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_route_matches_its_schema(server: Server, mode: str) -> None:
    schema = schemathesis.openapi.from_url(server.url + "/openapi.json")
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.checks.status_code_conformance,
        schemathesis.checks.content_type_conformance,
        schemathesis.checks.response_schema_conformance,
    ]
    checked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode == "NEGATIVE" and operation.method.upper() == "GET":
            continue  # nothing is sent that could be wrong

        @settings(
            max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate], database=None,
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
        def check(case: Any) -> None:
            response = case.call_and_validate(checks=checks, timeout=60)
            assert response.status_code != 424, response.text

        check()
        checked += 1
    assert checked >= (12 if mode == "NEGATIVE" else 18)
