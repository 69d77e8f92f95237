"""Notices what a submission replaces in its own process: functions that observe it, and those that it is observed by.

A seal remembers functions by identity, with their code and defaults, and compares them later. It is kept where the
submission runs, so it can be got round by who knows it: docs/integrity.md says what it catches. What it names is
looked at by a person, and proves nothing.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

OWN = ("gpututor.devices", "gpututor.errors", "gpututor.trace", "gpututor.protocol", "gpututor.worker")
"""Rooms of ours that a worker uses."""
STANDARD = ("time", "json", "json.decoder", "json.encoder", "struct", "gc", "hashlib", "operator", "timeit")
"""Modules of Python's whose functions must stay as they are."""
ENTRY_POINTS = ("torch", "torch.cuda", "torch.accelerator", "torch.testing", "time", "timeit")
LEARNERS_TO_CHANGE = frozenset(
    {"print", "input", "open", "help", "exit", "quit", "breakpoint", "copyright", "credits", "license"}
    | {"__import__", "__build_class__"}
)
"""Builtins that programs replace for good reasons, and that nothing here relies on."""
METHODS_FOR_READERS = frozenset({"__repr__", "__str__", "__format__"})
"""Of tensors: who looks for a fault lets them show their shapes, and nothing here reads what they say."""
CHANGED_BY_TORCH = frozenset({"Storage", "manual_seed"})
"""What `set_default_dtype` sets, and what torch._dynamo wraps at its first use."""
OF_SYS = ("settrace", "gettrace", "setprofile", "getprofile", "_getframe", "exc_info", "getrefcount", "getsizeof")
MOST_NAMED = 20

_CONSTANTS = (int, float, str, bytes, tuple, frozenset, torch.dtype, torch.device)
_ABSENT = object()
_CODE, _DEFAULTS = operator.attrgetter("__code__"), operator.attrgetter("__defaults__")


class Snapshot:
    """Remembers; `changed()` names what is not as it was.

    To look costs half a millisecond, as it is done after every call: the values of a module or class are read and
    compared in one go, and looked at one by one only where they differ.
    """

    def __init__(self, known: _Functions | None = None) -> None:
        self._spaces: list[_Space] = []
        self._functions = _Functions(known)
        self._seen: set[tuple[int, str]] = set()

    def add(self, owner: ModuleType | type, names: Iterable[str], words: str = "") -> None:
        """Watch these names of a module or class, also those that it only inherits, or does not have."""
        new = [name for name in dict.fromkeys(names) if (id(owner), name) not in self._seen]
        self._seen.update((id(owner), name) for name in new)
        if new:
            self._watch(vars(owner), new, (words or _name_of(owner)) + ".")

    def add_module(self, module: ModuleType) -> None:
        """Watch the functions, classes and constants of one of our modules, and those of its classes."""
        space = vars(module)
        self.add(module, [name for name, value in space.items() if _stays(name, value)])
        for value in list(space.values()):
            if isinstance(value, type) and _is_of(value, module):
                self.add(value, [inner for inner, part in vars(value).items() if _stays(inner, part)])

    def add_tables(self, module: ModuleType) -> None:
        """Watch what is in its constant dicts by now."""
        for name, table in list(vars(module).items()):
            if type(table) is dict and name.isupper() and (id(table), "") not in self._seen:
                self._seen.add((id(table), ""))
                self._watch(table, list(table), f"{module.__name__}.{name}[", "]")

    def renewed(self) -> Snapshot:
        """A seal over the same names, as they are now: much less work than to look for them once more."""
        seal = Snapshot(self._functions)
        for space in self._spaces:
            seal._take(space.renewed(), space.values)
        return seal

    def changed(self) -> list[str]:
        """What is another now than when the seal was made, each once; at most `MOST_NAMED`."""
        found = [words for space in self._spaces for words in space.changed()]
        return list(dict.fromkeys(found + self._functions.changed()))[:MOST_NAMED]

    def _watch(self, space: Mapping[Any, Any], names: Sequence[Any], before: str, after: str = "") -> None:
        self._take(_Space(space, names, before, after))

    def _take(self, space: _Space, known: Sequence[object] = ()) -> None:
        """`known`: values of the same names, whose functions are watched by now."""
        self._spaces.append(space)
        for name, value, old in itertools.zip_longest(space.names, space.values, known, fillvalue=_ABSENT):
            if value is not old:
                for function in _functions_in(value):
                    self._functions.add(function, space.words(name))


class _Space:
    """Names of one module, class or table, and their values."""

    def __init__(self, space: Mapping[Any, Any], names: Sequence[Any], before: str, after: str) -> None:
        there = [name for name in names if name in space]
        self._absent = [name for name in names if name not in space]
        self.names = there + self._absent
        self._space, self._before, self._after = space, before, after
        self._there = operator.itemgetter(*there) if len(there) > 1 else None
        """Reads all that is there at once, in a third of the time."""
        self.values = self._read()

    def renewed(self) -> _Space:
        """The same names with their values of now; of a table also what was added to it."""
        names = list(self._space) if self._after else self.names
        return _Space(self._space, names, self._before, self._after)

    def words(self, name: object) -> str:
        return f"{self._before}{str(name)[:60]}{self._after}"

    def changed(self, _all: Any = all, _map: Any = map, _is: Any = operator.is_) -> list[str]:
        values = self._read()
        if _all(_map(_is, values, self.values)):
            return []
        return [
            self.words(name)
            for name, now, before in zip(self.names, values, self.values, strict=True)
            if now is not before
        ]

    def _read(self, _map: Any = map, _absent: object = _ABSENT) -> Sequence[object]:
        if self._there is not None:
            try:
                there: tuple[object, ...] = self._there(self._space)
            except KeyError:  # one of them was removed
                pass
            else:
                if not self._absent:
                    return there
                return (*there, *_map(self._space.get, self._absent, itertools.repeat(_absent)))
        return list(_map(self._space.get, self.names, itertools.repeat(_absent)))


class _Functions:
    """Functions of Python, with their code, their defaults, and what their closures hold."""

    def __init__(self, known: _Functions | None) -> None:
        """`known`: those that are watched as they were at an earlier time."""
        self._known = known
        self._seen: set[int] = set()
        self._watched: list[FunctionType] = []
        self._codes: list[object] = []
        self._defaults: list[object] = []
        self._words: list[str] = []
        self._named: list[tuple[FunctionType, tuple[object, ...], str]] = []
        self._cells: list[tuple[CellType, object, str]] = []

    def __contains__(self, function: FunctionType) -> bool:
        return id(function) in self._seen or (self._known is not None and function in self._known)

    def add(self, function: FunctionType, words: str) -> None:
        if function in self:
            return
        self._seen.add(id(function))
        self._watched.append(function)
        self._codes.append(function.__code__)
        self._defaults.append(function.__defaults__)
        self._words.append(words)
        if more := _more(function):
            self._named.append((function, more, words))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if isinstance(content, FunctionType | BuiltinFunctionType | MethodType | type):
                self._cells.append((cell, content, words))
                for inner in _functions_in(content):
                    self.add(inner, words)

    def changed(self, _all: Any = all, _map: Any = map, _is: Any = operator.is_) -> list[str]:
        found = [] if self._known is None else self._known.changed()
        for read, before in ((_CODE, self._codes), (_DEFAULTS, self._defaults)):
            if not _all(_map(_is, _map(read, self._watched), before)):
                now = list(map(read, self._watched))
                found += [words for one, old, words in zip(now, before, self._words, strict=True) if one is not old]
        found += [words for function, more, words in self._named if _more(function) != more]
        return found + [words for cell, content, words in self._cells if _content(cell) is not content]


def snapshot_code() -> Snapshot:
    """Over our own rooms, what they rely on in Python, and torch as it is without a machine."""
    seal = Snapshot()
    for module in _own_modules():
        seal.add_module(module)
    for name in STANDARD:
        if name in sys.modules and name not in ("time", "timeit"):
            seal.add(sys.modules[name], _callables(sys.modules[name]))
    seal.add(builtins, [name for name in _callables(builtins) if name not in LEARNERS_TO_CHANGE])
    seal.add(sys, [name for name in OF_SYS if hasattr(sys, name)])
    return seal


def seal_of_machine(replaced: Iterable[tuple[object, str]]) -> Snapshot:
    """Over torch's entry points, Python's clocks and our tables as a machine has them; `replaced`: what it changed."""
    seal = Snapshot()
    for module in _own_modules():
        seal.add_tables(module)
    names: dict[ModuleType | type, list[str]] = defaultdict(list)
    for owner, name in replaced:
        if isinstance(owner, ModuleType | type) and name not in CHANGED_BY_TORCH:
            names[owner].append(name)
    for owner, of_owner in names.items():
        seal.add(owner, of_owner)
    unwatched = _NOT_WATCHED | METHODS_FOR_READERS
    for part in torch.Tensor.__mro__[:-1]:
        seal.add(part, [name for name in dir(torch.Tensor) if name not in unwatched], "torch.Tensor")
    for room in ENTRY_POINTS:
        if (entries := sys.modules.get(room)) is not None:
            seal.add(entries, [name for name in _callables(entries) if name not in CHANGED_BY_TORCH])
    for owner in (torch.cuda.Event, torch.cuda.Stream):
        if isinstance(owner, type):
            seal.add(owner, [name for name in dir(owner) if name not in _NOT_WATCHED])
    return seal


_NOT_WATCHED = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "__slotnames__"})
"""Names that Python itself writes; `copyreg` keeps `__slotnames__` in a class that it has copied or pickled."""


def _own_modules() -> list[ModuleType]:
    found = list(sys.modules.items())
    return [module for name, module in found if name.startswith(OWN) and isinstance(module, ModuleType)]


def _callables(owner: ModuleType | type) -> list[str]:
    """Its functions and classes; modules are none."""
    return [name for name, value in vars(owner).items() if name not in _NOT_WATCHED and _is_code(value)]


def _stays(name: str, value: object) -> bool:
    """Whether a name of ours is bound once and for all: code is, and a constant."""
    return name not in _NOT_WATCHED and (_is_code(value) or (name.isupper() and isinstance(value, _CONSTANTS)))


def _is_of(value: type, module: ModuleType) -> bool:
    """Whether a class was made there: some of ours say that they are torch's."""
    if value.__module__ == module.__name__:
        return True
    return any(
        function.__globals__ is vars(module) for part in vars(value).values() for function in _functions_in(part)
    )


def _is_code(value: object) -> bool:
    if isinstance(value, property | staticmethod | classmethod | functools.cached_property):
        return True
    return callable(value) and not isinstance(value, ModuleType)


def _functions_in(value: object) -> Iterator[FunctionType]:
    """The functions of Python that a value calls, as far as it shows them."""
    waiting: list[Any] = [value]
    for _ in range(32):
        if not waiting:
            return
        one = waiting.pop()
        if isinstance(one, FunctionType):
            yield one
            waiting += [vars(one)["__wrapped__"]] if "__wrapped__" in vars(one) else []
        elif isinstance(one, property):
            waiting += [one.fget, one.fset, one.fdel]
        elif isinstance(one, staticmethod | classmethod | MethodType):
            waiting.append(one.__func__)
        elif isinstance(one, functools.cached_property | functools.partial):
            waiting.append(one.func)


def _more(function: FunctionType) -> tuple[object, ...]:
    """The identities of its defaults that have names."""
    named = function.__kwdefaults__
    return () if not named else tuple((name, id(value)) for name, value in named.items())


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # emptied
        return _ABSENT


def _name_of(owner: ModuleType | type) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
