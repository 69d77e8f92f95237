"""The review list: submissions that an instructor should look at. It accuses no student.

`review_of` makes it of a gradebook; docs/classroom/README.md says what is on it.
"""

from gpututor.classroom.review.build import SHARE, Item, Review, ReviewReason, review_of

__all__ = ["SHARE", "Item", "Review", "ReviewReason", "review_of"]
