"""Commands, and the rows of the tables in `commands` that declare them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Command:
    """An action of a screen, with its keys and its texts."""

    handler: str
    """Dotted path of the method that runs it, from the main screen; a plain name for other screens."""
    title: str
    """Title of one or two words, for the footer and the palette."""
    help: str
    """A sentence."""
    bound: tuple[tuple[str, str], ...]
    """Keys outside the editor with their actions. The first key is shown."""
    keys: tuple[str, ...] = ()
    """Control and function keys that work everywhere on the main screen, in the editor too. The first one is shown."""
    group: str = ""
    """Heading on the main screen's help."""
    shown: str = ""
    """Keys as the help shows them; empty to list the keys one by one."""
    bar: tuple[str, str] | None = None
    """Key and words for the screen's key bar; None if the bar does not show the command."""
    palette: tuple[str, ...] | None = None
    """Other names in the palette; None if the palette does not list the command."""

    @property
    def id(self) -> str:
        return self.handler.rpartition(".")[2].removeprefix("action_")

    @property
    def letters(self) -> tuple[str, ...]:
        """Keys outside the editor."""
        return tuple(key for key, _ in self.bound)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def group(name: str, *rows: tuple[str, str, str, str, str, str]) -> Iterator[Command]:
    """Declare commands of the main screen: handler, keys for everywhere, other keys, title, other names, help."""
    for handler, keys, letters, title, names, help in rows:
        command = Command(handler, title, help, (), tuple(keys.split()), name, palette=_names(names))
        bound = tuple((letter, f"run_command('{command.id}')") for letter in letters.split())
        yield replace(command, bound=bound)


def row(
    id: str, keys: str, title: str, help: str, *, shown: str = "", bar: str = "", palette: str | None = None
) -> Command:
    """Declare a command of another screen.

    `keys`: groups of keys, such as `j,down:step(1) k:step(-1)`. The action is `id` if a group names none. Without
    keys, a widget of the screen handles them. `bar`: `key: words`. `palette`: other names, separated by commas.
    """
    bound = []
    for group in keys.split():
        names, _, action = group.partition(":")
        bound += [(key, action or id) for key in names.split(",")]
    key, _, words = bar.partition(": ")
    names_ = None if palette is None else _names(palette)
    return Command(id, title, help, tuple(bound), shown=shown, bar=(key, words) if bar else None, palette=names_)
