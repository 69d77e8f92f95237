"""`python -m gpututor.devices.virtual [OPTIONS] SCRIPT|-m MODULE […]`, with the options below.

Runs a script or a module, and all processes that it starts, on virtual GPUs:
`python -m gpututor.devices.virtual --gpus 2 -m torch.distributed.run --nproc-per-node 2 train.py`.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shutil
import sys

from gpututor.devices.virtual.options import DEFAULT_MODEL, MAX_GPUS, gpus_option, memory_option
from gpututor.devices.virtual.specs import spec
from gpututor.errors import UsageError

_MODULES = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.launch", "pytest": "pytest"}
"""What is behind commands that start CUDA programs."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gpututor.devices.virtual", allow_abbrev=False)
    parser.add_argument(
        "--gpus", type=gpus_option, default=1, metavar="N", help=f"how many GPUs, 0 to {MAX_GPUS} (default: 1)"
    )
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, metavar="NAME", help=f"which GPU, such as H100 (default: {DEFAULT_MODEL})"
    )
    memory = parser.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory", type=memory_option, metavar="SIZE", help="the memory of each, such as 512MiB (default: its own)"
    )
    memory.add_argument(
        "--memory-mib", type=_mebibytes, dest="memory", metavar="N", help="the same in MiB: 512 is 512MiB"
    )
    parser.add_argument(
        "--real-time", action="store_true", help="time and sleep are real, not what the work would take on the GPU"
    )
    parser.add_argument(
        "--no-values", action="store_true", help="tensors have shapes only: tells time and memory, computes nothing"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module and its arguments")
    what.add_argument("script", nargs="?", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    options = parser.parse_args()
    try:
        spec(options.model)
    except UsageError as error:
        parser.exit(error.exit_code, f"{error}\n")
    if options.module is not None and not options.module:
        parser.error("-m needs the name of a module")
    if options.module is None and not os.path.exists(options.script):
        parser.error(_no_script(options.script, options.arguments))
    from gpututor.devices.virtual.session import virtual_gpu

    with virtual_gpu(
        options.gpus,
        options.model,
        memory_bytes=options.memory,
        virtual_time=not options.real_time,
        values=not options.no_values,
    ):
        if options.module:
            sys.argv = options.module
            sys.path[0] = os.getcwd()
            runpy.run_module(options.module[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [options.script, *options.arguments]
            sys.path[0] = os.path.dirname(os.path.abspath(options.script))
            runpy.run_path(options.script, run_name="__main__")


def _mebibytes(word: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise argparse.ArgumentTypeError(f"a whole number, not {word!r}")
    return memory_option(word + "MiB")


def _no_script(name: str, arguments: list[str]) -> str:
    """What to say of a script that is no file: many mean a command."""
    if re.fullmatch(r"python[\d.]*", name):
        rest = " ".join(arguments) or "SCRIPT"
        return f"{name} is a command, and this runs Python already: say {rest!r} without it"
    if name in _MODULES:
        return f"{name} is a command, and this runs Python files: use -m {_MODULES[name]}"
    if shutil.which(name):
        return f"{name} is a command, and this runs Python files: name a file, or a module after -m"
    return f"there is no file {name}"


if __name__ == "__main__":
    main()
