"""The list of AllenNLP's tests that benchmarks/peers/run_allennlp_tests.py compares its results with."""

from pathlib import Path

LISTED = Path(__file__).parent.parent.parent / "benchmarks" / "peers" / "allennlp_tests.txt"


def test_listed_allennlp_tests_pass_or_have_a_reason() -> None:
    lines = [line for line in LISTED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    tests = [line.partition("  fails: ") for line in lines]
    assert len({name for name, _, _ in tests}) == len(tests) >= 50
    assert all(name.count("::") == 2 and name.split("::")[0].endswith("_test.py") for name, _, _ in tests)
    failing = [reason for _, found, reason in tests if found]
    assert len(tests) - len(failing) >= 45 and all(len(reason) > 20 for reason in failing)
