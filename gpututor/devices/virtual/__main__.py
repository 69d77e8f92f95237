"""`python -m gpututor.devices.virtual [OPTIONS] SCRIPT|-m MODULE […]`, with the options below.

Runs a script or a module, and all processes that it starts, on virtual GPUs:
`python -m gpututor.devices.virtual --gpus 2 -m torch.distributed.run --nproc-per-node 2 train.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from gpututor.devices.programs import Program, check, run_on
from gpututor.devices.virtual.options import DEFAULT_MODEL, MAX_GPUS, parse_count, parse_size
from gpututor.errors import UsageError
from gpututor.hardware.gpus import gpu_spec


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gpututor.devices.virtual", allow_abbrev=False)
    parser.add_argument(
        "--gpus",
        type=_option(parse_count),
        default=1,
        metavar="N",
        help=f"number of GPUs, 0 to {MAX_GPUS} (default: 1)",
    )
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, metavar="NAME", help=f"GPU model, such as H100 (default: {DEFAULT_MODEL})"
    )
    memory = parser.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory",
        type=_option(parse_size),
        metavar="SIZE",
        help="memory of each GPU, such as 512MiB (default: the model's own)",
    )
    memory.add_argument(
        "--memory-mib", type=_mebibytes, dest="memory", metavar="N", help="the same in MiB: 512 is 512MiB"
    )
    parser.add_argument(
        "--real-time", action="store_true", help="do not replace Python's time and sleep with the modelled clock"
    )
    parser.add_argument(
        "--no-values", action="store_true", help="compute no values: tensors have shapes, times and memory only"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module and its arguments")
    what.add_argument("script", nargs="?", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    options = parser.parse_args()
    try:
        gpu_spec(options.model)
    except UsageError as error:
        parser.exit(error.exit_code, f"{error}\n")
    if options.module is not None and not options.module:
        parser.error("-m needs the name of a module")
    words = options.module or [options.script, *options.arguments]
    program = Program(words[0], tuple(words[1:]), is_module=options.module is not None)
    try:
        check(program)
    except UsageError as error:
        parser.error(f"{error.title}\n{error.advice}")
    from gpututor.devices.virtual.session import virtual_gpu

    machine = virtual_gpu(
        options.gpus,
        options.model,
        memory_bytes=options.memory,
        virtual_time=not options.real_time,
        values=not options.no_values,
    )
    run_on(machine, program)


def _option(parse: Callable[[str], int]) -> Callable[[str], int]:
    """Wrap `parse` for argparse, which shows the message only of an `ArgumentTypeError`."""

    def convert(word: str) -> int:
        try:
            return parse(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _mebibytes(word: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise argparse.ArgumentTypeError(f"a whole number, not {word!r}")
    return _option(parse_size)(word + "MiB")


if __name__ == "__main__":
    main()
