"""What a learner should know beyond a report: what comes next, and that their file is no longer what ran."""

from __future__ import annotations

from gpututor.app.widgets.plain import PlainText

CHANGED = "Your file has changed since this run."


class RunNews(PlainText):
    """Words above the checks of a run; there only while there are any."""

    def __init__(self) -> None:
        super().__init__("", classes="news")
        self._words = ""
        self._is_older = False
        self._is_stale = False

    def clear(self) -> None:
        """Nothing ran yet, or a run begins."""
        self._words, self._is_older, self._is_stale = "", False, False
        self.display = False

    def tell(self, words: str, *, older: bool) -> None:
        """`older`: the run is not the newest, and says itself that the file is another one."""
        self._words, self._is_older = words, older
        self._show()

    def mark_stale(self, stale: bool) -> None:
        """Whether the learner's file is another one than that which ran."""
        if stale != self._is_stale:
            self._is_stale = stale
            self._show()

    def _show(self) -> None:
        stale = self._is_stale and not self._is_older
        words = " ".join(filter(None, [self._words, CHANGED if stale else ""]))
        self.set_class(stale or self._is_older, "-older")
        self.update(words)
        self.display = bool(words)
