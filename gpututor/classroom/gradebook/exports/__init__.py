"""Exports of the gradebook for other programs. A new one is a module here and a row in `EXPORTS`.

The rows are in the order of `classroom report --help`.
"""

from gpututor.classroom.gradebook.exports.canvas import CANVAS
from gpututor.classroom.gradebook.exports.csv import CSV, CSV_CHECKS
from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, left_over, write_text
from gpututor.classroom.gradebook.exports.gradescope import GRADESCOPE
from gpututor.classroom.gradebook.exports.html import HTML
from gpututor.classroom.gradebook.exports.junit import JUNIT
from gpututor.classroom.gradebook.exports.moodle import MOODLE

EXPORTS: tuple[Export, ...] = (CSV, CSV_CHECKS, GRADESCOPE, CANVAS, MOODLE, JUNIT, HTML)

__all__ = ["EXPORTS", "Export", "ExportRequest", "left_over", "write_text"]
