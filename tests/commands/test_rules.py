"""The rules of the command line, checked on every command: an option means the same everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from command_line import click_command

from elmo.commands import COMMANDS

# Options that mean the same in every command that has them, so that their type is in options.py.
SHARED = {
    *("--model", "--device", "--threads", "--seed", "--json", "--force", "--format", "--column", "--tokenizer"),
    *("--state", "--layers", "--pool", "--dtype", "--precision", "--set", "--keep", "--id-column", "--count"),
    *("--vectors", "--config"),
}
# The commands where they have another default or a narrower choice.
EXCEPT = {
    "--model": {"pretrain", "task train"},  # by default random weights; "none" is a baseline
    "--threads": {"embed-corpus", "task vectors"},  # of each worker; only one gives the same vectors again
    "--state": {"fill"},  # nothing comes before the sentence, so there is nothing to carry
    "--layers": {"neighbours build", "serve"},  # one vector per token
    "--seed": {"pretrain", "finetune"},  # by default the settings' seed
    "--tokenizer": {"task vectors", "pretrain"},  # by default the text is tokenized; a new model has no tokenizer yet
    "--vectors": {"paper report"},  # by default learned from the report's text
    "--set": {"paper tasks", "serve"},  # changes a plan; changes the service
}


def commands() -> Iterator[tuple[str, Any]]:
    for name in COMMANDS:
        command = click_command(name)
        if hasattr(command, "commands"):
            yield from ((f"{name} {each}", command.commands[each]) for each in command.commands)
        else:
            yield name, command


ALL = dict(commands())
PARAMETERS = [(name, parameter) for name, command in ALL.items() for parameter in command.params]
OPTIONS = [(name, option) for name, option in PARAMETERS if option.param_type_name == "option"]


def test_every_help_is_one_plain_sentence_with_its_default() -> None:
    wrong = []
    for name, parameter in PARAMETERS:
        sentence = re.sub(r" Default: .+\.$", "", parameter.help or "")
        if not sentence.endswith(".") or re.search(r"[.?!] [A-Z]", sentence):
            wrong.append((name, parameter.name, parameter.help))
    assert not wrong


def test_shared_options_have_the_same_names_and_help() -> None:
    wrong = {}
    for long in SHARED:
        found = {
            (*option.opts, option.help)
            for name, option in OPTIONS
            if long in option.opts and name not in EXCEPT.get(long, ())
        }
        if len(found) != 1:
            wrong[long] = found
    assert not wrong


def test_the_model_option_is_m_and_the_output_option_is_o() -> None:
    for name, option in OPTIONS:
        assert ("-m" in option.opts) == ("--model" in option.opts), name
        assert ("-o" in option.opts) == ("--output" in option.opts), name
        assert option.is_flag or "--json" not in option.opts, name
    arguments = {
        parameter.metavar or parameter.name for _, parameter in PARAMETERS if parameter.param_type_name != "option"
    }
    assert not {name for name in arguments if "model" in name.lower()}


def test_a_command_that_runs_a_model_takes_its_device() -> None:
    """All that take --threads, except static word vectors, which are trained on the CPU."""
    flags = {name: {option for each in command.params for option in each.opts} for name, command in ALL.items()}
    without = {name for name, found in flags.items() if "--threads" in found and "--device" not in found}
    assert without == {"task vectors"}


def test_an_unknown_command_gets_the_nearest_one() -> None:
    program = [sys.executable, "-m", "elmo"]  # the package runs as a module, too
    done = subprocess.run([*program, "neighbors"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Did you mean 'neighbours'?" in " ".join(done.stderr.split())
