"""The tiny course of the suite: what it cannot find in the course that comes with gpututor, and short limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "course"


@dataclass(frozen=True)
class Tiny:
    """An exercise: its folder under `course/`, and the fields of its manifest."""

    folder: str
    entry: str
    devices: tuple[str, ...] = ("virtual",)
    cases: int = 3
    wall_s: float = 10.0
    more: str = ""
    """Further lines of the manifest."""
    shared: dict[str, str] = field(default_factory=dict)
    """Files that other folders hold: their names here, and where they are under `course/`."""


CHAIN = "hurry/solution.py"
EXERCISES = {
    "scores": Tiny("scores", "scores", ("virtual", "cpu")),
    "patience": Tiny("scores", "scores", ("virtual", "cpu"), wall_s=2.0),
    "label": Tiny("label", "label", ("virtual", "cpu")),
    "plain": Tiny("plain", "total", ("virtual", "cpu")),
    "both": Tiny("both", "both", shared={"given.py": "scores/given.py"}),
    "norms": Tiny("norms", "norms"),
    "hurry": Tiny("hurry", "chain", cases=2, shared={"baseline.py": CHAIN}),
    "timed": Tiny(
        "timed", "chain", ("virtual", "cpu"), 2, wall_s=30.0, shared={"baseline.py": CHAIN, "solution.py": CHAIN}
    ),
}


def lay_out(course: Path, secret: str) -> dict[str, Path]:
    """Write the course into the folder `course`: the exercises' folders by name. What is secret holds `secret`."""
    lesson = course / "01_hostile"
    lesson.mkdir(parents=True)
    (course / "course.toml").write_text('id = "hostile"\ntitle = "Hostile"\n')
    (lesson / "lesson.toml").write_text('title = "Hostile"\nsummary = "Small exercises to be attacked."\n')
    (lesson / "lesson.md").write_text("# Hostile\n")
    folders: dict[str, Path] = {}
    for number, (name, tiny) in enumerate(EXERCISES.items(), 1):
        folders[name] = _write(lesson / f"{number:02d}_{name}", name, tiny, secret)
    return folders


def _write(folder: Path, name: str, tiny: Tiny, secret: str) -> Path:
    (folder / "wrong").mkdir(parents=True)
    devices = ", ".join(f'"{device}"' for device in tiny.devices)
    (folder / "exercise.toml").write_text(
        f'title = "{name}"\nsummary = "To be attacked."\nminutes = 5\nkind = "function"\nentry = "{tiny.entry}"\n'
        f"cases = {tiny.cases}\ndevices = [{devices}]\n{tiny.more}\n[limits]\nwall_s = {tiny.wall_s}\n"
    )
    sources = {source.name: source for source in (FOLDER / tiny.folder).glob("*.py")}
    for file, source in (sources | {file: FOLDER / path for file, path in tiny.shared.items()}).items():
        (folder / file).write_text(f"{source.read_text(encoding='utf-8')}\n# {secret}\n")
    (folder / "task.md").write_text(f"# {name}\n")
    (folder / "hints.md").write_text("## Look\nA.\n\n## Think\nB.\n\n## Nearly\nC.\n")
    nothing = f"def {tiny.entry}(*arguments, **named):\n    return "
    (folder / "starter.py").write_text(f"{nothing}None\n")
    for number in range(3):
        (folder / "wrong" / f"number_{number}.py").write_text(f"# fails: value\n# Wrong.\n{nothing}{number}\n")
    return folder
