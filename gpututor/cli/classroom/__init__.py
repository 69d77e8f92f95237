"""`gpututor classroom`: grade a whole class, then report on it."""

from __future__ import annotations

import argparse
import importlib
from typing import NamedTuple

from gpututor.cli.main import add_common_options
from gpututor.errors import UsageError


class Deed(NamedTuple):
    """A word that follows `classroom`. Its module has `add_arguments(parser)` and `main(arguments) -> exit code`."""

    name: str
    help: str


DEEDS: tuple[Deed, ...] = (
    Deed("grade", "grade what a class handed in, or go on with it"),
    Deed("report", "the gradebook: a table here, and files for other programs"),
    Deed("review", "what a person should look at: odd figures, texts that are alike, what was not graded"),
    Deed("feedback", "a Markdown report for each student"),
    Deed("open", "look at the class here: students, exercises, each submission with its report and trace"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(metavar="DEED", dest="deed")
    for deed in DEEDS:
        chosen = subparsers.add_parser(deed.name, help=deed.help, allow_abbrev=False)
        module = importlib.import_module(f"{__name__}.{deed.name}")
        chosen.description = module.__doc__
        chosen.formatter_class = argparse.RawDescriptionHelpFormatter
        add_common_options(chosen, default=argparse.SUPPRESS)
        module.add_arguments(chosen)
        chosen.set_defaults(do=module.main)


def main(arguments: argparse.Namespace) -> int:
    if arguments.deed is None:
        names = ", ".join(deed.name for deed in DEEDS)
        raise UsageError("classroom needs a word more.", f"One of {names}: `gpututor classroom --help` tells more.")
    return int(arguments.do(arguments))
