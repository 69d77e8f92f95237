"""Write the tables of keys in `docs/app.md` from the table of commands: `python docs/keys.py`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from gpututor.app.commands import COMMANDS, key_name

PAGE = Path(__file__).with_name("app.md")
BEGIN, END = "<!-- keys: python docs/keys.py writes them -->\n", "<!-- end of keys -->\n"


def tables() -> str:
    """Return a table for each group of commands, as Markdown."""
    parts: list[str] = []
    for group, commands in groupby(COMMANDS, key=lambda command: command.group):
        parts += [f"**{group}**\n", "| | key | everywhere | |", "| --- | --- | --- | --- |"]
        for command in commands:
            letters, keys = (_keys(names) for names in (command.letters, command.keys))
            parts.append(f"| {command.title} | {letters} | {keys} | {command.help} |")
        parts.append("")
    return "\n".join(parts)


def _keys(names: tuple[str, ...]) -> str:
    # Some keys have one name and several codes, because terminals differ.
    return " ".join(f"`{name}`" for name in dict.fromkeys(key_name(name) for name in names))


def with_tables(page: str) -> str:
    """Return the page with the tables of the current commands."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE)
