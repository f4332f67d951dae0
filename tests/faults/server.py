"""Runs `elmo` commands in forked children with faults: started with faults.c preloaded, so that imports cost once.

A request is a JSON line (`faults.commands.Server.run`); the answer is one with the exit code (negative:
the signal that ended the child) and the number of operations, if the child lived to tell it.
"""

import ctypes
import importlib
import json
import os
import resource
import sys

import torch

from elmo.commands import main
from elmo.embedding.writers import vector_writer

# What the commands import when they run.
for name in (
    "checkpoints.many_langs", "checkpoints.published", "commands.convert", "commands.embed",
    "commands.embed_corpus", "commands.finetune", "commands.info", "commands.neighbours", "commands.paper.report",
    "commands.pretrain", "commands.task", "commands.training_run", "embedding.to_file", "embedding.writers.arrow",
    "embedding.writers.hdf5", "embedding.writers.npz", "explore.neighbour_index", "paper.report",
    "paper.table_1_tasks", "pretrain.finetune", "pretrain.loop", "scale.job", "tasks.adaptation", "tasks.trained",
):  # fmt: skip
    importlib.import_module(f"elmo.{name}")


def answer(request: dict[str, object]) -> dict[str, int]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        _run(request, write_end)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        count = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "count": int(count or 0)}


def _run(request: dict[str, object], write_end: int) -> None:
    code = 0
    log = os.open(str(request["log"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["elmo", *request["arguments"]]  # type: ignore[misc]
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    if size := request["file_size"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))  # type: ignore[arg-type, type-var]
    faults = ctypes.CDLL(None)
    faults.faults_arm(os.fsencode(str(request["folder"])), ctypes.c_long(request["at"]), request["action"])  # type: ignore[arg-type]
    try:
        main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    faults.faults_count.restype = ctypes.c_long
    count = faults.faults_count()
    faults.faults_arm(b"", ctypes.c_long(0), 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(write_end, str(count).encode())
    os._exit(code)


if __name__ == "__main__":
    torch.set_num_threads(1)
    vector_writer.PART_BYTES = 30_000
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
