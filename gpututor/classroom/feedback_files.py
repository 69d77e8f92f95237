"""Files of feedback: Markdown and HTML pages in OUT/feedback, and zips for bulk uploads to Moodle and Canvas.

The HTML page is the Markdown of `gpututor.classroom.feedback`, rendered, so that both say the same.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.folder import ClassFolder, folder_name
from gpututor.classroom.gradebook.exports.export import left_out, left_over, write_text
from gpututor.classroom.gradebook.exports.html import document
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning
from gpututor.classroom.intake.archive import is_zip_name
from gpututor.classroom.submissions import Student
from gpututor.course.notebooks import ENDING, notebook_of
from gpututor.errors import UsageError
from gpututor.translation import ENGLISH, catalog


@dataclass(frozen=True)
class Feedback:
    """The feedback for a student."""

    student: Student
    markdown: str
    language: str = ENGLISH

    @property
    def html(self) -> str:
        """Return a page without scripts. Neither tags nor images in the Markdown become HTML."""
        from markdown_it import MarkdownIt  # slow to import

        body = MarkdownIt("js-default").disable("image").render(self.markdown)
        title = f"{catalog(self.language)('Feedback for')} {self.student.called}"
        return document(title, f'<main class="feedback">\n{body}</main>', language=self.language)


def write_reports(
    folder: ClassFolder, gradebook: Gradebook, reports: Collection[Feedback], *, html: bool
) -> list[GradebookWarning]:
    """Write the Markdown, and with `html` a page next to it; return warnings of reports that are left over.

    Pages of an earlier run are replaced in any case, so that they never show old marks. Raises `UsageError`.
    """
    for report in reports:
        name = folder_name(report.student.id)
        write_text(folder.feedback / f"{name}.md", report.markdown)
        page = folder.feedback / f"{name}.html"
        if html or page.exists():
            write_text(page, report.html)
    written = {
        path.stem
        for path in folder.feedback.glob("*")
        if path.suffix in (".md", ".html") and not path.name.startswith(".")
    }
    known = [folder_name(marks.student.id) for marks in gradebook.students]
    return list(left_over(folder.feedback, written, known, "reports", "send its files"))


@dataclass(frozen=True)
class Platform:
    """A platform that takes feedback for many students in one zip."""

    layout: str
    """Layout of its download, and option of `classroom feedback`."""
    name: str
    download: str
    """The platform's command for the download of submissions."""
    help: str
    entry: Callable[[Feedback, bool], tuple[str, str | bytes]]
    """Returns the name and content of the report's file in the zip; `True` for HTML."""

    def check(self, folder: ClassFolder, gradebook: Gradebook, path: Path) -> None:
        """Raise `UsageError` if the class has no names of this platform, or `path` is the class's or its download."""
        folder.check_output(path)
        class_ = gradebook.class_
        if class_.layout != self.layout:
            title = f"{folder.folder} contains a class in the layout `{class_.layout}`, not `{self.layout}`."
            advice = f"{self.name} needs the names of its {self.download}. Grade that download, then run this again."
            raise UsageError(title, advice)
        if class_.source and path.resolve() == Path(class_.source).resolve():
            raise UsageError(f"{path} is the download with the submissions.", "Name another file.")
        if not any(marks.student.upload for marks in gradebook.students):
            title = f"{folder.class_file} has no names of {self.name}'s uploads; older versions did not keep them."
            command = f"gpututor classroom grade {class_.source or 'DOWNLOAD'} --out {folder.folder} --resume"
            raise UsageError(title, f"Run `{command}`: it reads the names, and grades only what is missing.")

    def write(
        self, path: Path, gradebook: Gradebook, reports: Collection[Feedback], *, html: bool
    ) -> list[GradebookWarning]:
        """Write the zip; return a warning of students who are not in it. Raises `UsageError`."""
        uploaded = [report for report in reports if report.student.upload]
        write_text(path, _zip_of(dict(self.entry(report, html) for report in uploaded)))
        unknown = {report.student.id for report in reports} - {report.student.id for report in uploaded}
        known = {marks.student.id for marks in gradebook.students} - unknown
        advice = f"The {self.download} has no file of theirs. Send them their reports in another way."
        return left_out(self.name, gradebook, known, advice)


def _zip_of(files: Mapping[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _file(report: Feedback, html: bool) -> tuple[str, str]:
    return ("feedback.html", report.html) if html else ("feedback.md", report.markdown)


def _moodle(report: Feedback, html: bool) -> tuple[str, str | bytes]:
    name, text = _file(report, html)
    return f"{report.student.upload}/{name}", text


def _canvas(report: Feedback, html: bool) -> tuple[str, str | bytes]:
    """Return a file that opens under the name of the upload: Markdown for a program, a notebook, or a zip."""
    name = report.student.upload
    if is_zip_name(name):
        return name, _zip_of(dict([_file(report, html)]))
    return name, notebook_of(report.markdown) if name.casefold().endswith(ENDING) else report.markdown


PLATFORMS = (
    Platform(
        "moodle",
        "Moodle",
        "Download all submissions",
        "also write a zip for Moodle's Upload multiple feedback files in a zip",
        _moodle,
    ),
    Platform("canvas", "Canvas", "Download Submissions", "also write a zip for Canvas's Upload Submissions", _canvas),
)
