"""`python -m gpututor.devices.virtual [--gpus N] [--model M] [--memory-mib MIB] SCRIPT|-m MODULE [arguments…]`.

Runs a script or a module, and all processes that it starts, on virtual GPUs:
`python -m gpututor.devices.virtual --gpus 2 -m torch.distributed.run --nproc-per-node 2 train.py`.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from gpututor.devices.virtual.specs import spec
from gpututor.errors import UsageError


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gpututor.devices.virtual", allow_abbrev=False)
    parser.add_argument("--gpus", type=int, default=1, help="how many GPUs, 0 to 8")
    parser.add_argument("--model", default="T4", help="which GPU, such as H100")
    parser.add_argument("--memory-mib", type=int, help="the memory of each, in place of the model's own")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module and its arguments")
    what.add_argument("script", nargs="?", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    options = parser.parse_args()
    try:
        spec(options.model)
    except UsageError as error:
        parser.exit(error.exit_code, f"{error}\n")
    if not 0 <= options.gpus <= 8:
        parser.error("a virtual machine has 0 to 8 GPUs")
    if options.module is not None and not options.module:
        parser.error("-m needs the name of a module")
    from gpututor.devices.virtual.session import virtual_gpu

    memory_bytes = None if options.memory_mib is None else options.memory_mib << 20
    with virtual_gpu(options.gpus, options.model, memory_bytes=memory_bytes):
        if options.module:
            sys.argv = options.module
            sys.path[0] = os.getcwd()
            runpy.run_module(options.module[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [options.script, *options.arguments]
            sys.path[0] = os.path.dirname(os.path.abspath(options.script))
            runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
