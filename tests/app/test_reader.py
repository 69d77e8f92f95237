"""The reader: its text, links, and the glossary."""

from __future__ import annotations

import pkgutil
import re

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len
from textual.await_complete import AwaitComplete
from textual.content import Content
from textual.pilot import Pilot

from gpututor.app.course_index import NAME, Destination, destination, glossary_words, is_web, line_of, slug, with_links
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.help import TextScreen, glossary_content
from gpututor.app.widgets.markdown import CourseText, FoldedFence, folded
from gpututor.course.loader import load_course
from gpututor.course.model import Course, Exercise, Lesson
from gpututor.paths import builtin_course
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import TRIED_SIZES, screen_text

HINTS = 4


def hints(env: AppEnv) -> None:
    """Give the first exercise hints of which two fill a screen of 24 lines."""
    parts = (f"## Step {n}\n\n" + "".join(f"Line {m} of {n}.\n\n" for m in range(1, 7)) for n in range(1, HINTS + 1))
    (env.course.exercises[0].folder / "hints.md").write_text("\n".join(parts))
    env.course = load_course(env.course.folder)


@pytest.mark.parametrize("at_once", [True, False], ids=["in one moment", "one by one"])
async def test_the_newest_hint_is_in_sight(env: AppEnv, at_once: bool) -> None:
    hints(env)
    async with env.start() as pilot:
        for number in range(1, HINTS + 1):
            await pilot.press("h")
            if not at_once:
                await until_shown(pilot, f"Line 6 of {number}.")
                await until_shown(pilot, f"Step {number}")
        await until_shown(pilot, f"Line 6 of {HINTS}.")
        await until_shown(pilot, f"Step {HINTS}")
        assert "Line 1 of 1." not in screen_text(pilot.app)
        await pilot.press("g")
        await until_shown(pilot, "Line 1 of 1.")
        await pilot.press("h")
        await until_shown(pilot, f"Line 6 of {HINTS}.")


@pytest.mark.parametrize("size", mostly_long([(80, 24), (100, 30)], [(80, 24)]), ids=str)
async def test_no_text_stands_under_the_title_of_another_pane(
    env: AppEnv, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    update = CourseText.update
    displayed: list[bool] = []

    def looked_at(self: CourseText, markdown: str) -> AwaitComplete:
        displayed.append(self.display)
        return update(self, markdown)

    async with env.start(size) as pilot:
        monkeypatch.setattr(CourseText, "update", looked_at)
        reader = main_screen(pilot).panes.reader
        for key, title, words in (
            ("2", "Lesson", "1.2 Twice 2: Double a number."),
            ("t", "Task", "Write twice(number)."),
        ) * 2:
            await pilot.press(key)
            await until_shown(pilot, words)
            assert reader.border_title == title
    assert displayed
    assert not any(displayed), "what stood there goes before the title changes"


LESSON = """# Lesson 1

See [the second task](02_twice_1_2/task.md) and [streams](../02_lesson_2/lesson.md#streams-and-events).

Or the page <https://example.org/page>, or [nowhere](../99_nothing/lesson.md), or [below](#the-end).

"""
SECOND = "# Lesson 2\n\n" + "Words.\n\n" * 40 + "## Streams and `events`\n\nAs in lesson 1, they wait.\n\n"


@pytest.fixture
def linked(env: AppEnv) -> AppEnv:
    first, second = env.course.lessons
    (first.folder / "lesson.md").write_text(LESSON + "Words.\n\n" * 40 + "## The end\n\nIt ends here.\n")
    (second.folder / "lesson.md").write_text(SECOND + "Words.\n\n" * 40)
    env.course = load_course(env.course.folder)
    return env


def course_text(pilot: Pilot[None]) -> CourseText:
    return pilot.app.screen.query_one(CourseText)


def targets(pilot: Pilot[None]) -> list[str]:
    return [link.target for link in course_text(pilot).links]


async def read(pilot: Pilot[None], count: int) -> None:
    """Open the lesson, and wait for its links."""
    await pilot.press("2")
    await until(pilot, lambda: len(targets(pilot)) >= count, "for the links")
    await pilot.pause()


@pytest.mark.parametrize(
    ("block", "is_python"),
    [
        ("host memory   0 1 2\n+-----+  for  +--+\n| in  | ----> |  |\n", False),
        ("expected  a result on cuda:0\ngot       None\n", False),
        ("total = sum(losses) / 3\n", True),
        ("def train(model, batches) -> dict\n", True),
    ],
)
def test_of_unmarked_blocks_only_python_is_colored(block: str, is_python: bool) -> None:
    def styles(language: str) -> set[str]:
        return {str(span.style) for span in FoldedFence.highlight(block, language).spans}

    assert (len(styles("")) > 1) is is_python
    assert len(styles("python")) > 1, "a marked block is always colored"


# What is a link, and where it leads


def test_every_link_of_the_course_leads_somewhere() -> None:
    course = load_course(builtin_course())
    pages: list[Lesson | Exercise] = [*course.lessons, *course.exercises]
    words = glossary_words(course.glossary)
    links = 0
    for page in pages:
        for target in linked_targets(course, page):
            links += 1
            glossary, _, word = target.partition("#")
            if is_web(target) or (glossary == "../glossary.md" and word in {"", *map(slug, words)}):
                continue
            if target.startswith(NAME):
                assert pkgutil.resolve_name(target.removeprefix(NAME)) is not None
                continue
            where = destination(course, target, page)
            assert where is not None, f"{page.folder}: {target}"
            if where.anchor:
                assert line_of(text_of(where.page), where.anchor) is not None, f"{page.folder}: {target}"
    assert links >= 2 * len(course.exercises), "each lesson names its exercises, and each task its lesson"
    last = course.lessons[-1]
    named = re.findall(r"lesson (\d+)", last.text)
    assert named, "the last lesson names earlier ones"
    assert set(named) <= set(linked_targets(course, last))


def text_of(page: Lesson | Exercise) -> str:
    return page.text if isinstance(page, Lesson) else page.task


def linked_targets(course: Course, page: Lesson | Exercise) -> list[str]:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("gfm-like").parse(with_links(course, text_of(page), page))
    children = [child for token in tokens for child in token.children or []]
    return [str(child.attrs["href"]) for child in children if child.type == "link_open"]


def test_links_are_made_of_what_texts_name_and_lead_to_pages(env: AppEnv) -> None:
    course = env.course
    first, second = course.lessons
    task = course.exercises[3]
    for words in ("../02_lesson_2/lesson.md", "../02_lesson_2", "2", "lesson_2", "02_lesson_2"):
        assert destination(course, words, first) == Destination(second), words
    for words in ("../02_lesson_2/02_twice_2_2/task.md", "2.2", "twice_2_2", task.key):
        assert destination(course, words, first) == Destination(task), words
    assert destination(course, "../lesson.md", task) == Destination(second)
    assert destination(course, "#remember", task) == Destination(task, anchor="remember")
    assert destination(course, "2#a-b", first) == Destination(second, anchor="a-b")
    for words in ("3", "9.9", "../03_lesson/lesson.md", "nothing", "lesson", "/etc/passwd"):
        assert destination(course, words, first) is None, words
    text = (
        "# Lesson 2 again\n\nAs in lesson 2 and Lesson\n2; exercise 1.2 too. "
        "Not lesson 9, exercise 7.7 or `lesson 2`.\n\n"
        "    lesson 2\n\n```\nlesson 2\n```\n\n[lesson 2](x) is one already, lesson 2.1 is none.\n"
    )
    named = "`torch.mm(a,\nb)`, then `torch.mm`, `nn.Linear`, `torch.float16`, `[torch.mm]`\n\n    `torch.cat`\n"
    assert with_links(course, named, task).startswith(
        "[`torch.mm(a,\nb)`](name:torch.mm), then `torch.mm`, [`nn.Linear`](name:torch.nn.Linear), `torch.float16`, "
        "`[torch.mm]`\n\n    `torch.cat`\n"
    )
    assert with_links(course, "`F.elu(x)` of `F`, a `DataLoader` and `DataLoaders`", task).startswith(
        "[`F.elu(x)`](name:torch.nn.functional.elu) of `F`, "
        "a [`DataLoader`](name:torch.utils.data.DataLoader) and `DataLoaders`"
    )
    made = with_links(course, text, course.lessons[0])
    shown = made.split("\n## Exercises")[0]
    assert (
        "[lesson 2](2) and [Lesson\n2](2); [exercise 1.2](1.2) too. Not lesson 9, exercise 7.7 or `lesson 2`." in shown
    )
    assert "# Lesson 2 again" in shown
    assert "\n    lesson 2\n" in shown
    assert "```\nlesson 2\n```" in shown
    assert "[lesson 2](x) is one already, lesson 2.1 is none." in shown
    assert "- [1.2 Twice 2](1.2): Double a number." in made


def test_headings_are_named_as_on_github() -> None:
    text = "# A\n\n## What does it bring?\n\n```\n# no heading\n```\n\n## `f()` & g\n\n## A\n"
    assert slug("What does it bring?") == "what-does-it-bring"
    assert line_of(text, "what-does-it-bring") == 2
    assert line_of(text, "f--g") == 8
    assert line_of(text, "a") == 0
    assert line_of(text, "a-1") == 10
    assert line_of(text, "no-heading") is None


# Following them


async def test_a_heading_that_is_not_there_is_said(linked: AppEnv) -> None:
    lesson = linked.course.lessons[0].folder / "lesson.md"
    lesson.write_text("# Lesson 1\n\n[gone](../02_lesson_2/lesson.md#gone)\n")
    async with linked.start() as pilot:
        await read(pilot, 1)
        await pilot.press("enter", "enter")
        await until_shown(pilot, "There is no heading “gone” here.")
        await until_shown(pilot, "Lesson 2")


async def test_a_web_page_opens_outside(linked: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    opened: list[str] = []
    async with linked.start() as pilot:
        monkeypatch.setattr(pilot.app, "open_url", lambda url, **_: opened.append(url))
        await read(pilot, 5)
        course_text(pilot).choose(next(link for link in course_text(pilot).links if is_web(link.target)))
        await pilot.press("enter")
        await until_shown(pilot, "Opened in the browser: https://example.org/page")
        assert opened == ["https://example.org/page"]
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"):
            monkeypatch.delenv(name, raising=False)
        await pilot.press("enter")
        await until_shown(pilot, "There is no browser here. Copied: https://example.org/page")
        assert len(opened) == 1


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_a_click_follows_a_link(linked: AppEnv, pilot: Pilot[None]) -> None:
    await read(pilot, 5)
    (_, first), *_ = course_text(pilot).visible_links()
    await pilot.click(offset=(first.x + 2, first.y))
    await until(pilot, lambda: main_screen(pilot).exercise.label == "1.2", "for the task")


async def test_keys_choose_and_follow_links_and_lead_back(
    linked: AppEnv, pilot: Pilot[None], screen: MainScreen
) -> None:
    await read(pilot, 5)
    lines = screen_text(pilot.app).split("\n")
    starts = {"02_twice_1_2/task.md": "the sec", "../02_lesson_2/lesson.md#streams-and-events": "streams"}
    offsets = {link.target: offset for link, offset in course_text(pilot).visible_links()}
    for target, words in starts.items():
        offset = offsets[target]
        assert lines[offset.y][offset.x :].startswith(words)
    assert "1.1" not in offsets, "that one is far below"
    await read(pilot, 5)
    await pilot.press("right")
    chosen = course_text(pilot).chosen
    assert chosen is not None
    assert chosen.target == "02_twice_1_2/task.md"
    await pilot.press("right", "left", "enter")
    await until(pilot, lambda: screen.exercise.label == "1.2", "for the task")
    assert screen.panes.current == "task"
    await until_shown(pilot, "Bksp Back")
    await pilot.press("backspace")
    await until(pilot, lambda: screen.exercise.label == "1.1", "for the exercise of before")
    assert screen.panes.current == "lesson"
    await pilot.press("backspace")
    await until_shown(pilot, "There is nothing to go back to.")
    reader = main_screen(pilot).panes.reader
    await read(pilot, 5)
    await pilot.press("j", "right", "right", "enter")
    await until(pilot, lambda: "Streams and events" in screen_text(pilot.app).splitlines()[3], "for the heading")
    await until_shown(pilot, "Bksp Back")
    await pilot.press("backspace")
    await until(pilot, lambda: "Lesson 2" not in screen_text(pilot.app) and reader.scroll_y == 1, "for the place")
    await read(pilot, 5)
    await pilot.press("left", "left")  # the exercises at the end, last of them first
    await pilot.press("g", "right", "right", "right")
    course_text(pilot).choose(next(link for link in course_text(pilot).links if link.target == "#the-end"))
    await pilot.press("enter")
    await until_shown(pilot, "It ends here.")
    await read(pilot, 5)
    course_text(pilot).choose(next(link for link in course_text(pilot).links if "nothing" in link.target))
    await pilot.press("enter")
    await until_shown(pilot, "This link leads nowhere: ../99_nothing/lesson.md")


# Code that does not fit


def test_long_code_is_folded_with_a_mark_and_loses_nothing() -> None:
    code = (
        "def fetch_rows(table: Tensor, wanted: list[int], device) -> Tensor\n    return table[wanted].to(device)\n\nx"
    )
    for width in (14, 20, 36, 50, 80):
        lines = [line.plain for line in folded(Content(code), width)]
        assert all(len(line) <= width for line in lines), lines
        assert re.sub(r"\s|↪", "", "".join(lines)) == re.sub(r"\s", "", code)
    lines = [line.plain for line in folded(Content(code), 36)]
    assert lines[0] == "def fetch_rows(table: Tensor,"
    assert lines[1].startswith("↪ ")
    assert [line.plain for line in folded(Content(code), 80)] == code.split("\n")


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_no_code_of_a_task_is_cut(env: AppEnv, size: tuple[int, int]) -> None:
    line = "    train(model, batches, device, learning_rate, momentum, epochs) -> END"
    task = env.course.exercises[0].folder / "task.md"
    task.write_text(f"# Twice\n\nWrite\n\n{line}\n\nEnd.\n")
    async with env.start(size) as pilot:
        await until_shown(pilot, "-> END")
        assert ("↪" in screen_text(pilot.app)) is (size[0] == 140), "next to the code, the task is narrow"


async def test_at_80_columns_no_code_or_diagram_of_the_course_is_folded(env: AppEnv) -> None:
    env.course = load_course(builtin_course())
    async with env.start((80, 24)) as pilot:
        await pilot.press("2")
        fences = main_screen(pilot).panes.reader.query(FoldedFence)
        await until(pilot, lambda: any(fence.content_size.width for fence in fences), "for the lesson")
        room = fences.first().content_size.width
    texts = {lesson.slug: lesson.text for lesson in env.course.lessons}
    for exercise in env.course.exercises:
        texts[exercise.key] = "\n\n".join([exercise.task, *exercise.hints])
    blocks = [(name, token) for name, text in texts.items() for token in MarkdownIt().parse(text)]
    code = [
        (name, line)
        for name, token in blocks
        if token.type in ("fence", "code_block")
        for line in token.content.split("\n")
    ]
    assert len(code) > 1000
    assert [(name, line) for name, line in code if cell_len(line) > room] == []


ENTRY = re.compile(r"^\*\*([^*]+)\*\*: (.+?) \((\d+)\)$", re.DOTALL)


def test_the_courses_words_lessons_and_tasks_are_linked_in_order() -> None:
    course = load_course(builtin_course())
    _, _, *entries = course.glossary.strip().split("\n\n")
    words = []
    lessons = {lesson.number for lesson in course.lessons}
    for entry in entries:
        match = ENTRY.match(entry.strip())
        assert match, entry
        words.append(match[1].lower())
        assert int(match[3]) in lessons
    assert words == sorted(words)
    assert len(words) >= 40
    shown = glossary_content(course.glossary, 60).plain
    assert "`" not in shown
    assert " ".join(shown.split()).count("(lesson ") == len(entries)
    assert all(f"{word}\n" in shown.lower() for word in words)
    assert max(map(len, shown.splitlines())) <= 60
    by_lesson: dict[int, list[str]] = {lesson.number: [] for lesson in course.lessons}
    for word, number in re.findall(r"^\*\*([^*]+)\*\*: [^*]+? \((\d+)\)$", course.glossary, re.MULTILINE):
        by_lesson[int(number)].append(word)
    assert sum(map(len, by_lesson.values())) >= 40
    for lesson in course.lessons:
        _, linked, named = " ".join(lesson.text.split()).partition("[glossary](../glossary.md)")
        assert linked
        assert named.strip(" :.") == ", ".join(by_lesson[lesson.number])
    for lesson in course.lessons:
        text, made = (
            re.sub(r"\[(`[^`]+`|[^\[\]]+)\]\([^()\s]+\)", r"\1", each).split("\n")
            for each in (lesson.text.rstrip(), with_links(course, lesson.text, lesson))
        )
        assert made[: len(text)] == text
    exercise = course.find("move_a_model")
    facts = with_links(course, exercise.task, exercise).rstrip().splitlines()[-1]
    assert facts.startswith(f"{exercise.minutes} minutes, {exercise.difficulty}")
    assert "[2.2 There and back](2.2)" in facts
    assert facts.endswith("★ core path")


async def test_the_glossary_is_a_key_or_a_link_away(env: AppEnv) -> None:
    (env.course.folder / "glossary.md").write_text("# Glossary\n\n**host**: the CPU with\nits memory. (1)\n")
    async with env.start() as pilot:
        await pilot.press("W")
        await until_shown(pilot, "the CPU with its memory. (lesson 1)")
        await pilot.press("escape")
        assert main_screen(pilot).is_active
        main_screen(pilot).navigator.follow("../glossary.md")
        await until_shown(pilot, "the CPU with its memory. (lesson 1)")


async def test_a_word_of_a_lesson_opens_the_glossary_at_its_meaning(env: AppEnv) -> None:
    words = "".join(f"**word {number:02}**: meaning {number}. (1)\n\n" for number in range(40))
    (env.course.folder / "glossary.md").write_text(f"# Glossary\n\n{words}")
    text = "# Lesson 1\n\nNew words, in the [glossary](../glossary.md): word 00, word\n20.\n"
    (env.course.lessons[0].folder / "lesson.md").write_text(text)
    env.course = load_course(env.course.folder)
    async with env.start() as pilot:
        await read(pilot, 3)
        assert targets(pilot)[:3] == ["../glossary.md", "../glossary.md#word-00", "../glossary.md#word-20"]
        await pilot.press("right", "right", "right", "enter")
        await until_shown(pilot, "meaning 20.")
        await until(pilot, lambda: "meaning 19." not in screen_text(pilot.app), "for the word at the top")
        assert "meaning 21." in screen_text(pilot.app)


def test_a_lesson_links_the_first_use_of_each_word_of_the_glossary(env: AppEnv) -> None:
    course = env.course
    words = ("batch", "CUDA", "CUDA graph", "host", "pinned memory", "ZeRO")
    (course.folder / "glossary.md").write_text("".join(f"**{word}**: a meaning. (1)\n\n" for word in words))
    text = (
        "# The host\n\nA multi-host **host** has `host`, [pinned\nmemory](x), Pinned\nmemory and zero hosts. Batches "
        "of CUDA graphs, a batch.\n\n    host CUDA\n\nNew words, in the [glossary](../glossary.md): CUDA.\n"
    )
    assert with_links(course, text, course.lessons[0]).startswith(
        "# The host\n\nA multi-host **[host](../glossary.md#host)** has `host`, [pinned\nmemory](x), "
        "[Pinned\nmemory](../glossary.md#pinned-memory) and zero hosts. [Batches](../glossary.md#batch) "
        "of [CUDA graphs](../glossary.md#cuda-graph), a batch.\n\n    host CUDA\n\n"
        "New words, in the [glossary](../glossary.md): [CUDA](../glossary.md#cuda).\n"
    )
    assert "glossary" not in with_links(course, "A host.", course.exercises[0])


async def test_pages_for_further_reading_and_names_of_pytorch_are_links(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    opened: list[str] = []
    (env.course.folder / "reading.md").write_text("# Reading\n\n- [CUDA semantics](https://example.org/cuda)\n")
    text = '# Lesson 1\n\n`torch.zeros` is a link.\n\nIn PyTorch\'s documentation: "CUDA\nsemantics", `torch.ones`.\n'
    (env.course.lessons[0].folder / "lesson.md").write_text(text)
    env.course = load_course(env.course.folder)
    async with env.start() as pilot:
        monkeypatch.setattr(pilot.app, "open_url", opened.append)
        await read(pilot, 2)
        assert targets(pilot)[:3] == ["name:torch.zeros", "https://example.org/cuda", "name:torch.ones"]
        await pilot.press("right", "right", "enter")
        await until(pilot, lambda: opened == ["https://example.org/cuda"], "for the browser")


async def test_a_key_explains_the_chosen_name_or_says_how_to_choose(env: AppEnv) -> None:
    (env.course.exercises[0].folder / "task.md").write_text("# Twice 1\n\nCall `torch.zeros`.\n")
    env.course = load_course(env.course.folder)
    async with env.start() as pilot:
        await until(pilot, lambda: "name:torch.zeros" in targets(pilot), "for the link")
        await pilot.press("K")
        await until_shown(pilot, "To explain a name: → chooses a linked one, 4 shows your code.")
        await pilot.press("right", "K")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextScreen), "for the box")
        await until_shown(pilot, "torch.zeros")


async def test_a_course_without_a_glossary_says_so(pilot: Pilot[None]) -> None:
    await pilot.press("W")
    await until_shown(pilot, "This course has no glossary.")
    assert main_screen(pilot).is_active
    assert "Glossary" not in screen_text(pilot.app).splitlines()[0]
