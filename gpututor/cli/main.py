"""The command `gpututor`: the app when no verb is given, else a plain verb."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gpututor import __version__
from gpututor.cli.options import tell
from gpututor.errors import GradingError, TutorError, UsageError

if TYPE_CHECKING:
    import argparse

INTERRUPTED = 130
"""What shells say of a command that Ctrl-C ended."""
PIPE_CLOSED = 141
"""What shells say of a command whose reader went away."""


@dataclass(frozen=True)
class Verb:
    """A plain verb. Its module has `add_arguments(parser)` and `main(arguments) -> exit code`."""

    name: str
    """`grade`; `classroom grade` for a verb that follows `classroom`."""
    help: str
    """One line; the module's docstring is the long form."""
    takes_words: bool = False
    """What follows a `--` is for the learner's program: `main` finds it in `arguments.words`."""

    @property
    def module(self) -> str:
        """Imported only when the verb is asked for."""
        return f"gpututor.cli.{self.name.replace('-', '_').replace(' ', '.')}"


VERBS = (
    Verb("list", "the exercises, and how far you are"),
    Verb("init", "make your folder of solution files, or the files that are missing in it"),
    Verb("run", "run your file on the device, without grading it", takes_words=True),
    Verb("trace", "run a script, then tell what its device did, line by line"),
    Verb("grade", "grade your file and say check by check what was found"),
    Verb("watch", "grade your file each time you save it in your own editor"),
    Verb("hint", "show the next hint"),
    Verb("solution", "show the solution, once you have passed"),
    Verb("diff", "compare your file with the solution, once you have passed"),
    Verb("reset", "begin an exercise again; your file is kept as a backup"),
    Verb("pack", "make a zip of your solution files, to hand in"),
    Verb("devices", "the devices of this machine"),
    Verb("doctor", "look for what is wrong with this installation, and say what to do"),
    Verb("verify", "for authors: whether exercises and lessons are as they should be"),
    Verb("new", "for authors: begin an exercise, with all of its files"),
    Verb("pack-course", "for instructors: the course as students get it, without checks and solutions"),
    Verb("classroom", "for instructors: grade a whole class, and report on it"),
    Verb("classroom grade", "grade what a class handed in, or go on with it"),
    Verb("classroom report", "the gradebook: a table here, and files for other programs"),
    Verb("classroom review", "what a person should look at: odd figures, texts that are alike, what was not graded"),
    Verb("classroom feedback", "a Markdown report for each student"),
    Verb("classroom open", "look at the class here: students, exercises, each submission with its report and trace"),
)
FIRST_VERBS = tuple(verb for verb in VERBS if " " not in verb.name)

_OPTIONS_WITH_A_FOLDER = {
    "--course": "use the exercises in this folder, or of the installed course of this name, not the built-in ones",
    "--workspace": "your folder of solution files, instead of the one that is found from here",
}


def main(words: Sequence[str] | None = None) -> int:
    """Do what the words of a command line ask for; returns the exit code. Faults are told on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 gets ? instead of a traceback
    try:
        code = _do(list(sys.argv[1:] if words is None else words))
        print(end="", flush=True)  # here, where a refusal can be told
    except TutorError as error:
        tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _forget_output()
            tell(TutorError("There is no space left to write to.", "Make some, then try again."))
            return TutorError.exit_code
        refused = in_words(error)
        tell(refused)
        return refused.exit_code
    return code


def in_words(error: OSError) -> TutorError:
    """Return what the system refused, with the file's name."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    title = f"{where}{error.strerror or error}."
    return GradingError(title, "Check that the file is there, and your rights and the space left; then try again.")


def _forget_output() -> None:
    """Python flushes stdout once more at its exit, and would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _do(words: list[str]) -> int:
    if not words:
        return _start_app()  # by far the most frequent: argparse and a parser for each verb are 15 ms

    verb = _verb_in(words)
    module = importlib.import_module(verb.module) if verb else None
    parser = _parser()
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB")
    for each in FIRST_VERBS:
        chosen = subparsers.add_parser(each.name, help=each.help, allow_abbrev=False)
        if module is not None and each is verb:
            add_verb_arguments(chosen, module)
    ours = words.index("--") if verb and verb.takes_words and "--" in words else len(words)
    arguments = parser.parse_args(words[:ours])
    arguments.words = words[ours + 1 :]
    if module is not None:
        return int(module.main(arguments))
    return _start_app(arguments.course, arguments.workspace)


def _start_app(course: Path | None = None, workspace: Path | None = None) -> int:
    import gc

    # A lone Esc is told from the beginning of another key by a wait: 100 ms in Textual, 30 ms in fish.
    os.environ.setdefault("ESCDELAY", "30")
    gc.disable()  # 15 ms less of imports, which leave nothing to collect; the app turns it on when it is there
    try:
        from gpututor.app.start import run  # Textual

        return run(course, workspace)
    finally:
        gc.enable()


def _parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
        prog="gpututor",
        description="Learn GPU acceleration with PyTorch, exercise by exercise. Without a verb the app starts.",
        epilog="EXERCISE is a number such as 2.1, a name such as born_on_the_device, or a path. "
        "`gpututor VERB --help` tells more.",
        allow_abbrev=False,
    )
    add_common_options(parser, default=None)
    return parser


def add_verb_arguments(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    """Add what a verb's module takes, and the options that every verb takes."""
    import argparse

    parser.description = module.__doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_common_options(parser, default=argparse.SUPPRESS)
    module.add_arguments(parser)


def add_common_options(parser: argparse.ArgumentParser, *, default: str | None) -> None:
    """What every verb takes. `default`: `argparse.SUPPRESS` where an outer parser takes them too."""
    for option, help_line in _OPTIONS_WITH_A_FOLDER.items():
        meaning = _course if option == "--course" else _folder
        parser.add_argument(option, type=meaning, metavar="DIR", default=default, help=help_line)
    parser.add_argument("--version", action="version", version=f"gpututor {__version__}")


def _folder(word: str) -> Path:
    return Path(word).expanduser()  # a shell leaves the ~ of --course=~/mine alone


def _course(word: str) -> Path:
    from gpututor.course.loader import course_folder

    return course_folder(word)


def _verb_in(words: list[str]) -> Verb | None:
    """The verb among the words, None when they hold options only. Raises `UsageError` for one that nobody knows."""
    rest = iter(words)
    for word in rest:
        if word in _OPTIONS_WITH_A_FOLDER:
            next(rest, None)
        elif not word.startswith("-"):
            break
    else:
        return None
    for verb in FIRST_VERBS:
        if verb.name == word:
            return verb
    import difflib

    near = difflib.get_close_matches(word, [verb.name for verb in FIRST_VERBS], n=1, cutoff=0.5)
    question = f"Did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"There is no verb {word!r}.", f"{question}`gpututor --help` names them all.")


if __name__ == "__main__":
    sys.exit(main())
