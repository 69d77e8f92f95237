"""`gpututor classroom`: grade a whole class, then report on it."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from gpututor.cli.main import VERBS, add_verb_arguments
from gpututor.errors import UsageError

_PREFIX = "classroom "


def add_class_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all verbs for a graded class."""
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder of the class, as `classroom grade` made it")
    parser.add_argument("--rules", metavar="FILE", type=Path, help="rules for marks, instead of OUT/classroom.toml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(metavar="SUBCOMMAND", dest="subcommand")
    for verb in VERBS:
        if verb.name.startswith(_PREFIX):
            chosen = subparsers.add_parser(verb.name.removeprefix(_PREFIX), help=verb.help, allow_abbrev=False)
            module = importlib.import_module(verb.module)
            add_verb_arguments(chosen, module)
            chosen.set_defaults(do=module.main)


def main(arguments: argparse.Namespace) -> int:
    if arguments.subcommand is None:
        names = ", ".join(verb.name.removeprefix(_PREFIX) for verb in VERBS if verb.name.startswith(_PREFIX))
        raise UsageError("classroom needs a subcommand.", f"Add one of {names}. See `gpututor classroom --help`.")
    return int(arguments.do(arguments))
