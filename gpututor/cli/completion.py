"""Print a script that completes verbs, options, exercises and GPU models in your shell.

bash: add this line to ~/.bashrc:
  eval "$(gpututor completion bash)"
zsh: add this line to ~/.zshrc, below compinit:
  eval "$(gpututor completion zsh)"
fish: run this once:
  gpututor completion fish > ~/.config/fish/completions/gpututor.fish

At each Tab, the script asks gpututor itself: `gpututor completion SHELL -- WORD …` completes the last word. So the
words are always those of the installed version, and of the course that --course names.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpututor.cli.main import FIRST_VERBS, add_common_options, add_verb_arguments, find_verb
from gpututor.cli.options import chosen_course
from gpututor.course.model import Course
from gpututor.hardware.gpus import gpu_names
from gpututor.hardware.scenario import KINDS

Candidate = tuple[str, str]
"""A word and its description."""

SCRIPTS = {
    "bash": """\
_gpututor() {
    local IFS=$'\\n'
    COMPREPLY=($("$1" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _gpututor gpututor
""",
    "zsh": """\
#compdef gpututor
_gpututor() {
    local -a candidates
    candidates=("${(@f)$("${words[1]}" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n ${candidates[1]} ]]; then
        _describe -V 'gpututor' candidates
    else
        _files
    fi
}
if [[ ${funcstack[1]} == _gpututor ]]; then _gpututor "$@"; else compdef _gpututor gpututor; fi
""",
    "fish": """\
function __gpututor_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l candidates ($words[1] completion fish -- $words[2..-1] 2>/dev/null)
    if set -q candidates[1]
        printf '%s\\n' $candidates
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c gpututor --no-files --keep-order -a '(__gpututor_complete)'
""",
}
"""Script of each shell. Without candidates, each completes names of files."""
_BEFORE_DESCRIPTIONS = {"zsh": ":", "fish": "\t"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help=" or ".join(SCRIPTS))


def main(arguments: argparse.Namespace) -> int:
    """Print the script, or the candidates for the last of the words after `--`."""
    shell = arguments.shell
    if not arguments.words:
        print(SCRIPTS[shell], end="")
        return 0
    separator = _BEFORE_DESCRIPTIONS.get(shell)
    for word, description in candidates(arguments.words, is_split=shell == "bash"):
        print(f"{word}{separator}{description}" if separator and description else word)
    return 0


def candidates(words: Sequence[str], *, is_split: bool = False) -> Iterator[Candidate]:
    """Yield what the last word can become. `is_split`: the shell makes three words of `--option=value`."""
    *before, current = words
    if is_split:
        before, current = [word for word in before if word != "="], current.removeprefix("=")
    option, equals, value = current.partition("=")
    if option.startswith("--") and equals:
        before, current, kept = [*before, option], value, f"{option}="
    else:
        kept = ""
    for word, description in _possible(before, current):
        if word.startswith(current):
            yield kept + word, description


def _possible(before: list[str], current: str) -> Iterable[Candidate]:
    """Return the words that can follow those before; `current` decides between options, names and numbers."""
    verb = find_verb(before)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    if verb is None:
        add_common_options(parser, default=None)
        rest = before
    else:
        add_verb_arguments(parser, importlib.import_module(verb.module))
        rest = before[before.index(verb.name) + 1 :]
    if "--" in rest:
        return ()  # for the learner's program
    parser, action = _expected(parser, rest)
    if current.startswith("-") and (action is None or not action.option_strings):
        return _options(parser)
    if action is None:
        return [(known.name, known.help) for known in FIRST_VERBS] if verb is None else _options(parser)
    return _values(action, _course(before), current)


def _expected(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[argparse.ArgumentParser, argparse.Action | None]:
    """Return the parser of the innermost verb, and the action that takes the next word; None if there is none."""
    positionals, option = _positionals(parser), None
    for word in words:
        if option is not None:
            option = None
        elif word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            action = parser._option_string_actions.get(name)
            option = action if action is not None and action.nargs != 0 and not equals else None
        elif positionals and isinstance(positionals[0], argparse._SubParsersAction):
            if word not in positionals[0].choices:
                return parser, None
            parser = positionals[0].choices[word]
            positionals = _positionals(parser)
        elif positionals and positionals[0].nargs not in ("*", "+", argparse.REMAINDER):
            positionals = positionals[1:]
    return parser, option or next(iter(positionals), None)


def _positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _options(parser: argparse.ArgumentParser) -> Iterator[Candidate]:
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--") and action.help != argparse.SUPPRESS:
                yield option, (action.help or "").replace("%%", "%")


def _course(words: Sequence[str]) -> Callable[[], Course]:
    """Return a function that loads the course of the words: few candidates need it."""

    def load() -> Course:
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        add_common_options(parser, default=None)
        return chosen_course(parser.parse_known_args(list(words))[0])

    return load


def _values(action: argparse.Action, course: Callable[[], Course], current: str) -> Iterable[Candidate]:
    """Return the values of an argument."""
    if isinstance(action, argparse._SubParsersAction):
        return [(choice.dest, choice.help or "") for choice in action._choices_actions]
    if action.choices is not None:
        return [(str(choice), "") for choice in action.choices]
    values = VALUES.get(str(action.metavar)) or VALUES.get(action.dest)
    return values(course, current) if values else ()


def _exercises(course: Callable[[], Course], current: str) -> Iterator[Candidate]:
    """Yield names of exercises, or numbers after a digit."""
    for exercise in course().exercises:
        yield exercise.label if current[:1].isdigit() else exercise.slug, exercise.title


def _lessons_and_exercises(course: Callable[[], Course], current: str) -> Iterator[Candidate]:
    for lesson in course().lessons:
        yield str(lesson.number) if current[:1].isdigit() else lesson.slug, lesson.title
    yield from _exercises(course, current)


def _models(course: Callable[[], Course], current: str) -> Iterator[Candidate]:
    """Yield GPU models, each after the models that the word already has: `T4,H100`."""
    chosen = "".join(current.rpartition(",")[:2])
    for name in gpu_names():
        yield chosen + name.replace(" ", "-"), ""


def _devices(course: Callable[[], Course], current: str) -> Iterator[Candidate]:
    for kind in ("auto", *KINDS):
        yield kind, ""


def _paths(course: Callable[[], Course], current: str) -> Iterator[Candidate]:
    for path in course().learning_paths:
        yield path.name, path.title


VALUES: dict[str, Callable[[Callable[[], Course], str], Iterator[Candidate]]] = {
    "EXERCISE": _exercises,
    "LESSON|EXERCISE": _lessons_and_exercises,
    "gpu": _models,
    "models": _models,
    "device": _devices,
    "path": _paths,
}
"""Values by an argument's metavar, else by its destination."""
