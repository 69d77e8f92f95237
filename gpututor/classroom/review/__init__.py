"""The review list: what a person should look at, and how. It accuses nobody.

`review_of` makes it of a gradebook; docs/classroom/README.md says what is on it.
"""

from gpututor.classroom.review.build import SHARE, Item, Kind, Review, review_of

__all__ = ["SHARE", "Item", "Kind", "Review", "review_of"]
