"""The glossary is one key away; each of its words has a meaning and the number of a lesson."""

from __future__ import annotations

import re

from textual.pilot import Pilot

from gpututor.app.screens.help import glossary_content
from gpututor.course.loader import load_course
from gpututor.paths import builtin_course
from tests.support.apps import AppEnv, main_screen, until_shown
from tests.support.screens import screen_text

ENTRY = re.compile(r"^\*\*([^*]+)\*\*: (.+?) \((\d+)\)$", re.DOTALL)


def test_words_are_sorted_and_have_a_meaning_and_a_lesson() -> None:
    course = load_course(builtin_course())
    _, _, *entries = course.glossary.strip().split("\n\n")
    words = []
    for entry in entries:
        match = ENTRY.match(entry.strip())
        assert match, entry
        words.append(match[1].lower())
        assert 1 <= int(match[3]) <= len(course.lessons)
    assert words == sorted(words)
    assert len(words) >= 40
    shown = glossary_content(course.glossary, 60).plain
    assert all(f"{word}\n" in shown.lower() for word in words)
    assert max(map(len, shown.splitlines())) <= 60


async def test_the_glossary_is_a_key_away(env: AppEnv) -> None:
    (env.course.folder / "glossary.md").write_text("# Glossary\n\n**host**: the CPU with\nits memory. (1)\n")
    async with env.start() as pilot:
        await pilot.press("W")
        await until_shown(pilot, "the CPU with its memory. (1)")
        await pilot.press("escape")
        assert main_screen(pilot).is_active


async def test_a_course_without_a_glossary_says_so(pilot: Pilot[None]) -> None:
    await pilot.press("W")
    await until_shown(pilot, "This course has no glossary.")
    assert main_screen(pilot).is_active
    assert "Glossary" not in screen_text(pilot.app).splitlines()[0]
