"""Running a file as a script, ungraded.

`python -m gpututor.worker.script [--device D] [--model M] [--gpus N] [--memory S] FILE [ARGS …]`.
Its output goes straight to the terminal; its exit code is the script's own.
"""

from __future__ import annotations

import argparse
import sys

from gpututor.devices.programs import Program, check, run_on
from gpututor.errors import UsageError
from gpututor.worker.chosen import SelectedDevice, on_device, wanted


def main() -> None:
    parser = argparse.ArgumentParser(prog="gpututor run")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", "--gpu", dest="gpu")
    parser.add_argument("--gpus", default="1")
    parser.add_argument("--memory")
    parser.add_argument("file")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    program = Program(arguments.file, tuple(arguments.words))
    try:
        asked = wanted(arguments.device, arguments.gpu, arguments.gpus, arguments.memory)
        check(program)
        run_on(on_device(asked), program, began=_began)
    except UsageError as error:
        parser.exit(error.exit_code, f"gpututor: {error}\n")


def _began(device: SelectedDevice) -> None:
    print(f"gpututor: running on {device.words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
