"""Notices what a submission replaces in its own process: functions that observe it, and those that it is observed by.

A seal remembers functions by identity, with their code and defaults, and compares them later. It is kept where the
submission runs, so it can be got round by who knows it: docs/integrity.md says what it catches. What it names is
looked at by a person, and proves nothing.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import torch

OWN = ("gpututor.devices", "gpututor.errors", "gpututor.trace", "gpututor.wire", "gpututor.worker")
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

Space = dict[str, Any] | MappingProxyType[str, Any]
_CONSTANTS = (int, float, str, bytes, tuple, frozenset, torch.dtype, torch.device)
_ABSENT = object()


class Seal:
    """Remembers; `changed()` names what is not as it was. Takes some milliseconds to make, and one to compare."""

    def __init__(self) -> None:
        self._entries: list[tuple[Space, str, object, str]] = []
        self._codes: list[tuple[FunctionType, object, object, tuple[object, ...], str]] = []
        self._cells: list[tuple[Any, object, str]] = []
        self._seen: set[tuple[int, str]] = set()
        self._seen_objects: set[int] = set()

    def add(self, owner: ModuleType | type, names: Iterable[str], words: str = "") -> None:
        """Watch these names of a module or class, also those that it only inherits, or does not have."""
        words = words or _name_of(owner)
        space: Space = vars(owner)
        for name in names:
            if (id(owner), name) not in self._seen:
                self._seen.add((id(owner), name))
                self._entry(space, name, f"{words}.{name}")

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
            if type(table) is dict and name.isupper() and id(table) not in self._seen_objects:
                self._seen_objects.add(id(table))
                for key in list(table):
                    self._entry(table, key, f"{module.__name__}.{name}[{str(key)[:60]}]")

    def changed(self, _absent: object = _ABSENT) -> list[str]:
        """What is another now than when the seal was made, each once; at most `MOST_NAMED`."""
        found = [words for space, name, value, words in self._entries if space.get(name, _absent) is not value]
        for function, code, defaults, more, words in self._codes:
            same = function.__code__ is code and function.__defaults__ is defaults
            if not same or (more and _more(function) != more):
                found.append(words)
        found += [words for cell, content, words in self._cells if cell.cell_contents is not content]
        return list(dict.fromkeys(found))[:MOST_NAMED]

    def _entry(self, space: Any, name: str, words: str) -> None:
        value = space.get(name, _ABSENT)
        self._entries.append((space, name, value, words))
        for function in _functions_in(value):
            self._function(function, words)

    def _function(self, function: FunctionType, words: str) -> None:
        if id(function) in self._seen_objects:
            return
        self._seen_objects.add(id(function))
        self._codes.append((function, function.__code__, function.__defaults__, _more(function), words))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if isinstance(content, FunctionType | BuiltinFunctionType | MethodType | type):
                self._cells.append((cell, content, words))
                for inner in _functions_in(content):
                    self._function(inner, words)


def seal_of_code() -> Seal:
    """Over our own rooms, what they rely on in Python, and torch as it is without a machine."""
    seal = Seal()
    for module in _own_modules():
        seal.add_module(module)
    for name in STANDARD:
        if name in sys.modules and name not in ("time", "timeit"):
            seal.add(sys.modules[name], _callables(sys.modules[name]))
    seal.add(builtins, [name for name in _callables(builtins) if name not in LEARNERS_TO_CHANGE])
    seal.add(sys, [name for name in OF_SYS if hasattr(sys, name)])
    return seal


def seal_of_machine(replaced: Iterable[tuple[object, str]]) -> Seal:
    """Over torch's entry points, Python's clocks and our tables as a machine has them; `replaced`: what it changed."""
    seal = Seal()
    for module in _own_modules():
        seal.add_tables(module)
    for owner, name in replaced:
        if isinstance(owner, ModuleType | type):
            seal.add(owner, [name] if name not in CHANGED_BY_TORCH else [])
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


_NOT_WATCHED = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__"})


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


def _name_of(owner: ModuleType | type) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
