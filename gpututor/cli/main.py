"""The command `gpututor`: runs a verb, or starts the app if there is none."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gpututor import describe_version
from gpututor.cli.options import print_error
from gpututor.errors import GradingError, TutorError, UsageError

if TYPE_CHECKING:
    import argparse

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""
PIPE_CLOSED = 141
"""Exit code after a closed pipe, as in shells."""


@dataclass(frozen=True)
class Verb:
    """A verb. Its module has `add_arguments(parser)` and `main(arguments) -> exit code`."""

    name: str
    """`grade`; `classroom grade` for a verb that follows `classroom`."""
    help: str
    takes_words: bool = False
    """True if words after `--` are for the learner's program; `main` gets them in `arguments.words`."""

    @property
    def module(self) -> str:
        """Module of the verb, imported only when the verb is used."""
        return f"gpututor.cli.{self.name.replace('-', '_').replace(' ', '.')}"


VERBS = (
    Verb("list", "the exercises, and your progress"),
    Verb("init", "make your folder of solution files, or the files that are missing from it"),
    Verb("run", "run your file on the device, without grading it", takes_words=True),
    Verb("trace", "run a script and report its device time, copies and waits by line"),
    Verb("grade", "grade your file, check by check"),
    Verb("watch", "grade your file each time you save it in your own editor"),
    Verb("serve", "serve the app to a browser on this machine"),
    Verb("hint", "show the next hint"),
    Verb("solution", "show the solution, once you have passed"),
    Verb("diff", "compare your file with the solution, once you have passed"),
    Verb("reset", "start an exercise over; your file is backed up"),
    Verb("pack", "make a zip of your solution files, to submit"),
    Verb("devices", "the devices of this machine"),
    Verb("doctor", "check this installation, and say what to fix"),
    Verb("completion", "complete verbs, options and exercises in your shell", takes_words=True),
    Verb("verify", "for authors: check exercises and lessons"),
    Verb("new", "for authors: begin an exercise, with all of its files"),
    Verb("pack-course", "for instructors: the course as students get it, without checks and solutions"),
    Verb("classroom", "for instructors: grade a whole class, and report on it"),
    Verb("classroom grade", "grade a class's submissions, or resume"),
    Verb("classroom report", "the gradebook: a table here, and files for other programs"),
    Verb("classroom review", "items to review: odd figures, similar texts, ungraded files"),
    Verb("classroom leaderboard", "the fastest passing submissions, here or as a page for students"),
    Verb("classroom feedback", "a Markdown report for each student"),
    Verb("classroom mark", "set a mark by hand, with a reason"),
    Verb("classroom regrade", "grade one submission again"),
    Verb("classroom log", "the history: gradings, regrades, and marks by hand"),
    Verb("classroom gradescope-image", "the autograder zip to upload to Gradescope"),
    Verb("classroom gradescope-grade", "in a Gradescope autograder: grade its submission"),
    Verb("classroom open", "open the class here: students, exercises, submissions with report and trace"),
)
FIRST_VERBS = tuple(verb for verb in VERBS if " " not in verb.name)

_OPTIONS_WITH_A_FOLDER = {
    "--course": "use the course in this folder, or the installed course of this name, instead of the built-in course",
    "--workspace": "your folder of solution files (default: found from the current folder)",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Errors are printed on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 gets ? instead of a traceback
    # Saves 7 ms: at exit Python would search all objects for garbage, although the process ends anyway.
    atexit.register(gc.freeze)
    try:
        code = _run(list(sys.argv[1:] if words is None else words))
        print(end="", flush=True)  # now, while an error of stdout is still caught
    except TutorError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _forget_output()
            failure = TutorError("The disk is full.", "Free some space, then try again.")
        else:
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            advice = "Check that the file exists and is writable, and that the disk has space. Then try again."
            failure = GradingError(f"{where}{error.strerror or error}.", advice)
        print_error(failure)
        return failure.exit_code
    return code


def _forget_output() -> None:
    """Redirect stdout to nowhere: Python flushes it once more at exit, and would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    if not words:
        return _start_app()  # the most frequent use: argparse with all verbs takes 15 ms

    verb = find_verb(words)
    module = importlib.import_module(verb.module) if verb else None
    parser = _parser()
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB")
    # Only the chosen verb needs its arguments: all of them would take 10 ms for each verb.
    lists_all = verb is None or not {"-h", "--help"}.isdisjoint(words)
    for known in FIRST_VERBS if lists_all or verb is None else (verb,):
        subparser = subparsers.add_parser(known.name, help=known.help, allow_abbrev=False)
        if module is not None and known is verb:
            add_verb_arguments(subparser, module)
    ours = words.index("--") if verb and verb.takes_words and "--" in words else len(words)
    arguments = parser.parse_args(words[:ours])
    arguments.words = words[ours + 1 :]
    if module is not None:
        return int(module.main(arguments))
    return _start_app(arguments.course, arguments.workspace)


def _start_app(course: Path | None = None, workspace: Path | None = None) -> int:
    # A timeout distinguishes a lone Esc from the start of another key: 100 ms in Textual, 30 ms in fish.
    os.environ.setdefault("ESCDELAY", "30")
    gc.disable()  # imports take 15 ms less and leave no garbage; the app enables it once it is running
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
        "`gpututor VERB --help` has details.",
        allow_abbrev=False,
    )
    add_common_options(parser, default=None)
    return parser


def add_verb_arguments(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    """Add the arguments of a verb's module, and the options of every verb."""
    import argparse

    parser.description = module.__doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_common_options(parser, default=argparse.SUPPRESS)
    module.add_arguments(parser)


def add_common_options(parser: argparse.ArgumentParser, *, default: str | None) -> None:
    """Add the options of every verb. `default` is `argparse.SUPPRESS` if an outer parser has them too."""
    for option, help_line in _OPTIONS_WITH_A_FOLDER.items():
        to_path = _course if option == "--course" else _folder
        parser.add_argument(option, type=to_path, metavar="DIR", default=default, help=help_line)
    _add_version(parser)


def _add_version(parser: argparse.ArgumentParser) -> None:
    """Add `--version`; git is called only when the option is read."""
    import argparse

    class PrintVersion(argparse.Action):
        def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
            print(f"gpututor {describe_version()}")
            parser.exit()

    help_line = "print the version and exit"
    parser.add_argument("--version", action=PrintVersion, nargs=0, default=argparse.SUPPRESS, help=help_line)


def _folder(word: str) -> Path:
    return Path(word).expanduser()  # a shell does not expand the ~ of --course=~/mine


def _course(word: str) -> Path:
    from gpututor.course.loader import course_folder

    return course_folder(word)


def find_verb(words: list[str]) -> Verb | None:
    """Return the verb among the words; None if there are only options. Raises `UsageError` for an unknown verb."""
    rest = iter(words)
    for word in rest:
        if word in _OPTIONS_WITH_A_FOLDER:
            next(rest, None)
        elif not word.startswith("-"):
            break
    else:
        return None
    verbs = {verb.name: verb for verb in FIRST_VERBS}
    if word in verbs:
        return verbs[word]
    from gpututor.fuzzy import did_you_mean

    raise UsageError(f"There is no verb {word!r}.", f"{did_you_mean(word, verbs)}`gpututor --help` lists them all.")


if __name__ == "__main__":
    sys.exit(main())
