"""What is done before what on a machine, whatever the times are: launches, marks and waits say so. Imports no torch.

A vector clock for each stream and one for the host (Fidge 1988, Mattern 1989), as PyTorch's own sanitizer of streams
has them (torch.cuda._sanitizer): for each stream, the last launch of it that is done before whatever comes now. While
there are only default streams nothing can be out of order, and next to nothing is kept.
"""

from __future__ import annotations

from gpututor.devices.virtual.clock.timeline import Task

Key = tuple[int, int]
"""A GPU's index and a stream's number."""
Known = dict[Key, int]
"""By stream, the number of its last launch that is known to be done."""


class Order:
    """What is known to be done: on each stream before its next launch, and by the host."""

    def __init__(self) -> None:
        self.active = False
        """Whether anything can be out of order: a second stream was used, or a stream waited for another."""
        self.host: Known = {}
        self._count = 0
        self._streams: dict[Key, Known] = {}

    def launched(self, gpu: int, stream: int) -> int:
        """The number of a new launch on that stream, which comes after all that the host knows to be done."""
        if stream and not self.active:
            self.active = True
        self._count += 1
        if self.active:
            known = self.known(gpu, stream)
            _learn(known, self.host)
            known[gpu, stream] = self._count
        return self._count

    def known(self, gpu: int, stream: int) -> Known:
        """What is done before the next launch on that stream; the caller may add to it."""
        key = (gpu, stream)
        found = self._streams.get(key)
        if found is None:
            # Until now the default streams were alone, and each is in order with itself.
            found = self._streams[key] = {} if stream else {key: self._count}
            _learn(found, self.host)
        return found

    def record(self, gpu: int, stream: int) -> Known:
        """What is done when a mark that is made now is reached."""
        return dict(self.known(gpu, stream)) if self.active else {(gpu, stream): self._count}

    def wait_for(self, gpu: int, stream: int, known: Known) -> None:
        """The stream's later launches come after a mark."""
        if not self.active:
            if set(known) <= {(gpu, stream)}:
                return
            self.active = True
        _learn(self.known(gpu, stream), known)

    def host_waited_for(self, known: Known) -> None:
        """The host waited for a mark."""
        _learn(self.host, known)

    def host_waited(self, gpu: int, stream: int | None) -> None:
        """The host waited for a stream, or for all of a GPU's."""
        if not self.active:
            self.host[gpu, 0] = self._count
        elif stream is not None:
            _learn(self.host, self.known(gpu, stream))
        else:
            for key, known in self._streams.items():
                if key[0] == gpu:
                    _learn(self.host, known)

    def is_before(self, earlier: Task, gpu: int, stream: int) -> bool:
        """Whether a launch is done before the next one on that stream."""
        return earlier.key == (gpu, stream) or self.known(gpu, stream).get(earlier.key, 0) >= earlier.number

    def host_knows(self, earlier: Task) -> bool:
        """Whether the host knows that a launch is done."""
        return self.host.get(earlier.key, 0) >= earlier.number


def _learn(known: Known, more: Known) -> None:
    for key, number in more.items():
        if known.get(key, 0) < number:
            known[key] = number
