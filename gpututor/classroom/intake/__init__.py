"""What a class handed in, in a folder or a zip: who, for which exercise, what is refused, and what belongs to nobody.

`read_class` does it all, `summary` puts it into words. docs/classroom/layouts.md describes the layouts.
"""

from gpututor.classroom.intake.reading import check_apart, read_class
from gpututor.classroom.intake.recognising import AUTO, LAYOUTS
from gpututor.classroom.intake.summary import gone, summary

__all__ = ["AUTO", "LAYOUTS", "check_apart", "gone", "read_class", "summary"]
