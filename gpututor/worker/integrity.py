"""Detects code that a submission replaces in its own process: observers, and functions that they rely on.

A snapshot holds functions by identity, with their code and defaults, and compares them later. It is in the submission's
process, so a submission that knows it can evade it: docs/integrity.md lists what it catches. A person looks at what it
names; it proves nothing.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

OWN = ("gpututor.devices", "gpututor.errors", "gpututor.trace", "gpututor.protocol", "gpututor.worker")
STANDARD = ("time", "json", "json.decoder", "json.encoder", "struct", "gc", "hashlib", "operator", "timeit")
"""Modules of Python whose functions must not change."""
ENTRY_POINTS = ("torch", "torch.cuda", "torch.accelerator", "torch.testing", "time", "timeit")
REPLACEABLE_BUILTINS = frozenset(
    {"print", "input", "open", "help", "exit", "quit", "breakpoint", "copyright", "credits", "license"}
    | {"__import__", "__build_class__"}
)
"""Builtins that programs replace for good reasons, and that the worker does not rely on."""
REPLACEABLE_METHODS = frozenset({"__repr__", "__str__", "__format__"})
"""Methods of tensors that learners replace to see shapes; the worker does not rely on them."""
CHANGED_BY_TORCH = frozenset({"Storage", "manual_seed", "trace", "trace_module"})
"""Names that `set_default_dtype` sets, or that torch._dynamo wraps at its first use."""
OF_SYS = ("settrace", "gettrace", "setprofile", "getprofile", "_getframe", "exc_info", "getrefcount", "getsizeof")
MOST_NAMED = 20

_CONSTANTS = (int, float, str, bytes, tuple, frozenset, torch.dtype, torch.device)
_ABSENT = object()
_STATE = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")
_CONTENT = operator.attrgetter("cell_contents")
_CHAIN = itertools.chain.from_iterable
_END = (object(),)


class Snapshot:
    """Snapshot of names and functions; `changed()` names what differs now.

    A check runs after every call, so it reads and compares all values at once. It looks at them one by one only if they
    differ.
    """

    def __init__(self, known: _FunctionStates | None = None) -> None:
        _watch_assignments()
        self._fixed, self._tables = _Namespaces(), _Namespaces()
        self._functions = _FunctionStates(known)
        self._seen: set[tuple[int, str]] = set()

    def add(self, owner: ModuleType | type, names: Iterable[str], words: str = "") -> None:
        """Add names of a module or class, also inherited or missing ones."""
        new = [name for name in dict.fromkeys(names) if (id(owner), name) not in self._seen]
        self._seen.update((id(owner), name) for name in new)
        if new:
            self._add_names(vars(owner), new, (words or _name_of(owner)) + ".")

    def add_module(self, module: ModuleType) -> None:
        """Add the functions, classes and constants of one of our modules, and those of its classes."""
        space = vars(module)
        self.add(module, [name for name, value in space.items() if _is_fixed(name, value)])
        for value in list(space.values()):
            if isinstance(value, type) and _is_defined_in(value, module):
                self.add(value, [inner for inner, part in vars(value).items() if _is_fixed(inner, part)])

    def add_tables(self, module: ModuleType) -> None:
        """Add the current content of its constant dicts."""
        for name, table in list(vars(module).items()):
            if type(table) is dict and name.isupper() and (id(table), "") not in self._seen:
                self._seen.add((id(table), ""))
                self._add_names(table, list(table), f"{module.__name__}.{name}[", "]")

    def renewed(self, *, tables_only: bool = False) -> Snapshot:
        """Return a snapshot of the same names now, or of its tables: much cheaper than finding them again.

        The two share what has not changed: add nothing to either of them.
        """
        snapshot = Snapshot(self._functions)
        if tables_only or self._fixed.are_current():
            snapshot._fixed = self._fixed
        else:
            self._fixed.renew(snapshot._fixed, snapshot._functions)
        if self._tables.are_current():
            snapshot._tables = self._tables
        else:
            self._tables.renew(snapshot._tables, snapshot._functions)
        return snapshot

    def changed(self) -> list[str]:
        """Return the names that differ from the snapshot, each once, at most `MOST_NAMED`."""
        names = self._fixed.changed_names() + self._tables.changed_names() + self._functions.changed()
        return list(dict.fromkeys(names))[:MOST_NAMED]

    def _add_names(self, space: Mapping[Any, Any], names: Sequence[Any], before: str, after: str = "") -> None:
        namespace = _Namespace(space, names, before, after)
        (self._tables if namespace.is_table else self._fixed).add(namespace)
        self._functions.add_values_of(namespace)


class _Namespace:
    """Names of one module, class or table, and their values."""

    def __init__(self, space: Mapping[Any, Any], names: Sequence[Any], before: str, after: str) -> None:
        self.names = [name for name in names if name in space]
        self.absent_names = frozenset(names).difference(self.names)
        self.space, self._before, self._after = space, before, after
        self.read = operator.itemgetter(*self.names, *self.names[:1]) if self.names else _read_nothing
        """Reads all values at once, the first one twice: a getter of a single name returns no tuple."""
        self.values: tuple[object, ...] = self.read(space)[: len(self.names)]
        kinds = set(map(type, self.names))
        self.is_slow_to_look_up = self.is_table and any(isinstance(kind.__hash__, FunctionType) for kind in kinds)
        """True for a table with keys that Python code hashes, such as operators of torch."""

    @property
    def is_table(self) -> bool:
        return bool(self._after)

    def renewed(self) -> _Namespace:
        """Return the same names with their current values; for a table also its new entries."""
        names = list(self.space) if self.is_table else [*self.names, *self.absent_names]
        return _Namespace(self.space, names, self._before, self._after)

    def is_current(self) -> bool:
        """Return True if no value has changed, and a table has no new entries."""
        if not self.is_table:
            return not self.changed()
        entries = itertools.chain(self.space, self.space.values())
        return self.is_complete() and all(map(operator.is_, entries, itertools.chain(self.names, self.values)))

    def is_complete(self) -> bool:
        """Return True unless a table has new entries."""
        return not self.is_table or len(self.space) == len(self.names)

    def words(self, name: object) -> str:
        return f"{self._before}{str(name)[:60]}{self._after}"

    def changed(self) -> list[str]:
        pairs = zip(self.names, self.values, strict=True)
        names = [name for name, before in pairs if self.space.get(name, _ABSENT) is not before]
        return [self.words(name) for name in (*names, *self.absent_names.intersection(self.space))]


def _read_nothing(_: object) -> tuple[object, ...]:
    return ()


class _Namespaces:
    """Many namespaces, whose values are read and compared without a step of Python for each."""

    def __init__(self) -> None:
        self.all: list[_Namespace] = []
        self._readers: list[Callable[[Any], Iterable[object]]] = []
        self._spaces: list[Mapping[Any, Any]] = []
        self._values: list[object] = []
        self._absent: list[tuple[KeysView[Any], frozenset[Any]]] = []

    def add(self, namespace: _Namespace) -> None:
        self.all.append(namespace)
        if namespace.is_slow_to_look_up:
            self._readers += (dict.keys, dict.values)
            self._spaces += (namespace.space, namespace.space)
            self._values += (*namespace.names, *namespace.values)
        else:
            self._readers.append(namespace.read)
            self._spaces.append(namespace.space)
            self._values += (*namespace.values, *namespace.values[:1])
        if namespace.absent_names:
            self._absent.append((namespace.space.keys(), namespace.absent_names))

    def renew(self, renewed: _Namespaces, functions: _FunctionStates) -> None:
        """Add all namespaces with their current values to `renewed`, and new functions in them to `functions`."""
        for space in self.all:
            if space.is_current():
                renewed.add(space)
            else:
                renewed.add(new := space.renewed())
                functions.add_values_of(new, space.values)

    def are_current(self) -> bool:
        """Return True if no value has changed, and no table has other entries."""
        return self._have_same_values() and all(space.is_complete() for space in self.all)

    def changed_names(self) -> list[str]:
        return [] if self._have_same_values() else [words for space in self.all for words in space.changed()]

    def _have_same_values(
        self,
        _all: Any = all,
        _map: Any = map,
        _is: Any = operator.is_,
        _call: Any = operator.call,
        _chain: Any = _CHAIN,
        _end: Any = _END,
    ) -> bool:
        parts = _map(_call, self._readers, self._spaces)
        try:
            # A table with fewer entries moves the end.
            same: bool = _all(_map(_is, _chain((_chain(parts), _end)), _chain((self._values, _end))))
        except KeyError:  # a name was removed
            return False
        return same and _all([keys.isdisjoint(names) for keys, names in self._absent])


class _FunctionStates:
    """Python functions with their code, their defaults, and the contents of their closures."""

    def __init__(self, known: _FunctionStates | None) -> None:
        """`known`: functions of an earlier snapshot, which are watched there."""
        self._known = known
        self._since = 0
        self._seen: set[int] = set()
        self._watched: list[tuple[FunctionType, tuple[object, ...], str]] = []
        self._keywords = _Namespaces()
        self._cells: list[CellType] = []
        self._contents: list[object] = []
        self._words_of_cells: list[str] = []

    def __contains__(self, function: FunctionType) -> bool:
        return id(function) in self._seen or (self._known is not None and function in self._known)

    def add_values_of(self, space: _Namespace, known: Sequence[object] = ()) -> None:
        """Add the functions of a namespace. `known`: values of the same names whose functions are watched already."""
        for name, value, old in itertools.zip_longest(space.names, space.values, known, fillvalue=_ABSENT):
            if value is not old:
                for function in _functions_in(value):
                    self.add(function, space.words(name))

    def add(self, function: FunctionType, words: str) -> None:
        if function in self:
            return
        self._since = len(_assigned)  # ids of functions that are gone may be used again
        self._seen.add(id(function))
        self._watched.append((function, _STATE(function), words))
        if keywords := function.__kwdefaults__:
            self._keywords.add(_Namespace(keywords, list(keywords), f"{words}(", ")"))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if isinstance(content, FunctionType | BuiltinFunctionType | MethodType | type):
                self._cells.append(cell)
                self._contents.append(content)
                self._words_of_cells.append(words)
                for inner in _functions_in(content):
                    self.add(inner, words)

    def changed(self, _all: Any = all, _map: Any = map, _is: Any = operator.is_, _content: Any = _CONTENT) -> list[str]:
        names = [] if self._known is None else self._known.changed()
        if not self._seen.isdisjoint(_assigned[self._since :]):
            names += [words for function, state, words in self._watched if not _all(_map(_is, _STATE(function), state))]
        names += self._keywords.changed_names()
        try:
            same = _all(_map(_is, _map(_content, self._cells), self._contents))
        except ValueError:  # a cell was emptied
            same = False
        return names if same else names + self._changed_cells()

    def _changed_cells(self) -> list[str]:
        cells = zip(self._cells, self._contents, self._words_of_cells, strict=True)
        return [words for cell, content, words in cells if _content_of(cell) is not content]


_assigned: list[int] = []
"""The id of each function that was given other code or defaults, in order."""


@functools.cache
def _watch_assignments() -> None:
    """Make Python report assignments to functions, for the rest of the process: reading all functions takes longer."""
    sys.addaudithook(_on_audit)


def _on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "object.__setattr__" and arguments[1] in ("__code__", "__defaults__", "__kwdefaults__"):
        _assigned.append(id(arguments[0]))


def snapshot_code() -> Snapshot:
    """Return a snapshot of our modules and of what they rely on in Python."""
    snapshot = Snapshot()
    for module in _own_modules():
        snapshot.add_module(module)
    for name in STANDARD:
        if name in sys.modules and name not in ("time", "timeit"):
            snapshot.add(sys.modules[name], _callables(sys.modules[name]))
    snapshot.add(builtins, [name for name in _callables(builtins) if name not in REPLACEABLE_BUILTINS])
    snapshot.add(sys, [name for name in OF_SYS if hasattr(sys, name)])
    return snapshot


def snapshot_machine(replaced: Iterable[tuple[object, str]]) -> Snapshot:
    """Return a snapshot of torch's entry points, clocks, our tables, and the names `replaced` by the machine."""
    snapshot = Snapshot()
    for module in _own_modules():
        snapshot.add_tables(module)
    names: dict[ModuleType | type, list[str]] = defaultdict(list)
    for owner, name in replaced:
        if isinstance(owner, ModuleType | type) and name not in CHANGED_BY_TORCH:
            names[owner].append(name)
    for owner, of_owner in names.items():
        snapshot.add(owner, of_owner)
    unwatched = _NOT_WATCHED | REPLACEABLE_METHODS
    for part in torch.Tensor.__mro__[:-1]:
        snapshot.add(part, [name for name in dir(torch.Tensor) if name not in unwatched], "torch.Tensor")
    for module_name in ENTRY_POINTS:
        if (entries := sys.modules.get(module_name)) is not None:
            snapshot.add(entries, [name for name in _callables(entries) if name not in CHANGED_BY_TORCH])
    for owner in (torch.cuda.Event, torch.cuda.Stream):
        if isinstance(owner, type):
            snapshot.add(owner, [name for name in dir(owner) if name not in _NOT_WATCHED])
    return snapshot


_NOT_WATCHED = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "__slotnames__"})
"""Names that Python itself writes; `copyreg` stores `__slotnames__` in classes that it copies or pickles."""


def _own_modules() -> list[ModuleType]:
    modules = list(sys.modules.items())
    return [module for name, module in modules if name.startswith(OWN) and isinstance(module, ModuleType)]


def _callables(owner: ModuleType | type) -> list[str]:
    """Return the names of its functions and classes, without modules."""
    return [name for name, value in vars(owner).items() if name not in _NOT_WATCHED and _is_code(value)]


def _is_fixed(name: str, value: object) -> bool:
    """Return True for a name that is bound once: code, or a constant."""
    return name not in _NOT_WATCHED and (_is_code(value) or (name.isupper() and isinstance(value, _CONSTANTS)))


def _is_defined_in(value: type, module: ModuleType) -> bool:
    """Return True if a class was made in `module`: some of ours claim to be of torch."""
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
    """Yield the Python functions that a value calls, as far as it shows them."""
    waiting: list[Any] = [value]
    for _ in range(32):
        if not waiting:
            return
        inner = waiting.pop()
        if isinstance(inner, FunctionType):
            yield inner
            waiting += [vars(inner)["__wrapped__"]] if "__wrapped__" in vars(inner) else []
        elif isinstance(inner, property):
            waiting += [inner.fget, inner.fset, inner.fdel]
        elif isinstance(inner, staticmethod | classmethod | MethodType):
            waiting.append(inner.__func__)
        elif isinstance(inner, functools.cached_property | functools.partial):
            waiting.append(inner.func)


def _content_of(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # emptied
        return _ABSENT


def _name_of(owner: ModuleType | type) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
