"""Static review of a submission before it runs: names that no honest solution needs, line by line.

The judge reads the syntax tree and runs nothing. `RULES` is the whole list. A static review cannot see names that a
program computes; docs/integrity.md lists what remains.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gpututor.checks.python_syntax import aliases, check_names, dotted_name, imported
from gpututor.grading.report import SourceNote

MOST_NOTES = 20
STARTERS_KEPT = 128
GRADER = "gpututor"
UNREADABLE = "unreadable"
"""Name of a note on a text that is nested too deeply."""


@dataclass(frozen=True)
class NameRule:
    """A kind of name, and its sentence. Names of several parts are matched with imports resolved."""

    sentence: str
    modules: frozenset[str] = frozenset()
    """Modules that must not be imported, or reached as an attribute of another module."""
    builtins: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    """Names after a dot, of any object; also names imported from a module."""
    dotted: frozenset[str] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rule(sentence: str, **names: str) -> NameRule:
    return NameRule(sentence, **{kind: _words(text) for kind, text in names.items()})


_GRADER = "uses gpututor, which grades it"
_PRIVATE = "reads or writes a private name of another object"
_COMPUTED = "computes the name of an attribute at run time"
_TOO_DEEP = "is nested too deeply to be read before it runs"
_MEMORY = "opens the files of running processes"
RULES = (
    _rule(
        "accesses the frames of running code",
        attributes=(
            "f_back f_builtins f_code f_globals f_locals f_trace tb_frame tb_next gi_code gi_frame cr_code cr_frame "
            "ag_code ag_frame settrace setprofile settrace_all_threads setprofile_all_threads addaudithook "
            "walk_stack walk_tb"
        ),
        dotted="sys.monitoring sys.exc_info sys.last_traceback",
    ),
    _rule("accesses all objects of the process", modules="gc tracemalloc"),
    _rule("accesses memory outside of Python's control", modules="ctypes cffi", dotted="torch.utils.cpp_extension"),
    _rule("installs code that runs at a signal", modules="signal"),
    _rule("reads the code and the frames of other functions", modules="inspect"),
    _rule(
        "imports modules by computed names, or replaces modules",
        modules="importlib imp pkgutil runpy zipimport",
        builtins="__import__ __loader__ __spec__",
        dotted="sys.modules sys.meta_path sys.path_hooks sys.path_importer_cache",
    ),
    _rule(
        "runs code that is made from text or bytes",
        modules="code codeop marshal",
        builtins="exec eval compile",
        dotted="pickle.load pickle.loads pickle.Unpickler types.CodeType types.FunctionType",
    ),
    _rule("accesses variables as a dict", builtins="globals locals vars"),
    _rule("accesses Python's builtins as an object", modules="builtins", builtins="__builtins__"),
)
"""All reviewed names, except private attributes, computed names and gpututor's modules."""

_PUBLIC_PRIVATE = frozenset({"_asdict", "_field_defaults", "_fields", "_make", "_replace"})
"""Public names of named tuples."""
_FOREACH = "_foreach_"
"""Start of the names of torch's documented functions on lists of tensors."""
_DUNDERS = _words(
    "__all__ __call__ __contains__ __doc__ __enter__ __eq__ __exit__ __file__ __getitem__ __hash__ __init__ __iter__ "
    "__len__ __module__ __name__ __next__ __post_init__ __qualname__ __repr__ __setitem__ __str__ __version__"
)
"""Special names that ordinary code uses on any object."""
_OWN_DUNDERS = _words("__getattr__ __setattr__ __delattr__ __new__ __init_subclass__ __torch_function__")
"""Special names that a class uses on `super()`."""
_FREE_BUILTINS = frozenset({"print", "input", "open"})
"""Functions that programs may replace for good reasons; the worker does not rely on them."""
_NAMES_OF_CLASS = ("__name__", "__qualname__", "__module__")
_OWNERS = ("self", "cls")
_BY_NAME = ("getattr", "setattr", "delattr")
_GETTERS = ("attrgetter", "methodcaller")
_WORDS = frozenset({"signal", "code"})
"""Modules named by ordinary words: an attribute counts only if the module is imported."""
_OF_SIGNAL_PROCESSING = ("torch", "scipy")
_OURS = re.compile(r"gpututor(\.\w+)+", re.ASCII)
_PROCESS_FILES = re.compile(r"/proc/(?!cpuinfo|meminfo|stat\b|loadavg|driver)")


def review(source: str, allowed: Collection[str] = ()) -> tuple[SourceNote, ...]:
    """Return notes on names of `source` that no honest solution needs, without `allowed`; none if it is not Python."""
    return tuple(note for note in _notes(source) if note.name not in allowed)[:MOST_NOTES]


@functools.lru_cache(maxsize=2)
def _notes(source: str) -> tuple[SourceNote, ...]:
    """Parse and review a text; cached, because each scenario reviews it."""
    try:
        tree = ast.parse(source)
        check_names(tree)
        notes = list(_Reader(tree).notes())
    except SyntaxError:  # loading the file reports it
        return ()
    except (ValueError, RecursionError, MemoryError):
        notes = [SourceNote(1, UNREADABLE, _TOO_DEEP)]
    notes.sort(key=lambda note: note.line)
    return tuple(dict.fromkeys(notes))


@functools.lru_cache(maxsize=STARTERS_KEPT)
def names_of(starter: str) -> frozenset[str]:
    """Return all names in an author's file that `review` notes."""
    return frozenset(note.name for note in review(starter))


def suspicions_in(notes: Iterable[SourceNote], *, all_count: bool) -> list[str]:
    """Return the suspicions as sentences: all notes if `all_count`, otherwise only uses of gpututor."""
    return [note.words for note in notes if all_count or note.name == GRADER]


class _Reader:
    """A reviewer of one syntax tree, with the imports, aliases and attributes of its file."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._aliases = aliases(tree)
        self._bound = _bound_at_top(tree)
        self._own = _own_attributes(self._nodes)
        imports = (alias.name for node in self._nodes if isinstance(node, ast.Import) for alias in node.names)
        self._imports = {name.partition(".")[0] for name in imports}
        self._called = {id(node.func) for node in self._nodes if isinstance(node, ast.Call)}
        self._docstrings = {id(node.value) for node in self._nodes if isinstance(node, ast.Expr)}
        attributes = [node for node in self._nodes if isinstance(node, ast.Attribute)]
        reads = [node for node in attributes if isinstance(node.ctx, ast.Load)]
        self._harmless = {id(node.value) for node in reads if node.attr in _NAMES_OF_CLASS}
        """Objects of which only the name is read: `self.__class__.__name__`."""
        names = {id(node) for node in self._nodes if isinstance(node, ast.Name) and node.id == "builtins"}
        self._only_free_builtins = names <= {id(node.value) for node in attributes if node.attr in _FREE_BUILTINS}
        """True if the file uses no other name of `builtins`."""

    def notes(self) -> Iterator[SourceNote]:
        for node in self._nodes:
            for name, sentence in self._notes_on(node):
                yield SourceNote(node.lineno, name, sentence)  # type: ignore[attr-defined]

    def _notes_on(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from self._notes_on_import(node)
            case ast.Name(id=name):
                yield from self._notes_on_name(node, name)
            case ast.Attribute():
                yield from self._notes_on_attribute(node)
            case ast.Call():
                yield from self._notes_on_call(node)
            case ast.MatchClass(kwd_attrs=names):
                for name in names:
                    yield from self._notes_on_attribute_name(name, "")
            case ast.Constant(value=str(text)) if id(node) not in self._docstrings:
                if _OURS.fullmatch(text):
                    yield GRADER, _GRADER
                elif _PROCESS_FILES.match(text):
                    yield "/proc", _MEMORY

    def _notes_on_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "__future__":
            return
        for dotted in imported(node):
            parts = dotted.split(".")
            if dotted == "builtins" and self._only_free_builtins and all(alias.asname is None for alias in node.names):
                continue
            if parts[0] == GRADER:
                yield GRADER, _GRADER
                continue
            for rule in RULES:
                if parts[0] in rule.modules:
                    yield parts[0], rule.sentence
                elif isinstance(node, ast.ImportFrom) and parts[-1] in rule.attributes | _modules(rule, parts[0]):
                    yield parts[-1], rule.sentence
                elif whole := next((whole for whole in rule.dotted if f"{dotted}.".startswith(f"{whole}.")), ""):
                    yield whole, rule.sentence
            if isinstance(node, ast.ImportFrom) and parts[-1] == "*" and parts[:-1] == ["sys"]:
                yield "sys.modules", _sentence_of("sys.modules")
            for part in parts:
                if part.startswith("_") and part.strip("_") and part not in _DUNDERS:
                    yield part, _PRIVATE

    def _notes_on_name(self, node: ast.Name, name: str) -> Iterator[tuple[str, str]]:
        if not isinstance(node.ctx, ast.Load) or name in self._bound:
            return
        for rule in RULES:
            if name in rule.builtins:
                yield name, rule.sentence
        if name in _BY_NAME and id(node) not in self._called:
            yield name, _COMPUTED

    def _notes_on_attribute(self, node: ast.Attribute) -> Iterator[tuple[str, str]]:
        name, is_called = node.attr, id(node) in self._called
        if name == "__class__" and id(node) in self._harmless:
            return
        if (name in _GETTERS and not is_called) or name == "get_field":
            yield name, _COMPUTED
        is_read = isinstance(node.ctx, ast.Load) and not is_called
        yield from self._notes_on_access(node.value, name, self._resolved(node), is_read=is_read)

    def _notes_on_access(self, owner: ast.expr, name: str, dotted: str, *, is_read: bool) -> Iterator[tuple[str, str]]:
        """Review `owner.name`, also by `getattr`. `is_read`: True if it is read but not called, like `sys.modules`."""
        for rule in RULES:
            if whole := next((whole for whole in rule.dotted if f".{dotted}".endswith(f".{whole}")), ""):
                yield whole, rule.sentence
            elif name in _modules(rule, dotted.partition(".")[0]) and self._is_module(owner, name, dotted):
                yield name, rule.sentence
        if name == "modules" and is_read and not _self_or_super(owner) and not dotted.endswith("sys.modules"):
            yield "sys.modules", _sentence_of("sys.modules")
        yield from self._notes_on_attribute_name(name, _self_or_super(owner))

    def _notes_on_attribute_name(self, name: str, owner: str) -> Iterator[tuple[str, str]]:
        """Review an attribute. `owner` is `self`, `cls`, `super()` or empty."""
        for rule in RULES:
            if name in rule.attributes:
                yield name, rule.sentence
        if not name.startswith("_") or not name.strip("_") or name in _PUBLIC_PRIVATE or name.startswith(_FOREACH):
            return
        if name.startswith("__") and name.endswith("__"):
            if name not in _DUNDERS and not (owner == "super()" and name in _OWN_DUNDERS):
                yield name, _PRIVATE
        elif not owner or (owner != "super()" and name not in self._own):
            yield name, _PRIVATE

    def _notes_on_call(self, node: ast.Call) -> Iterator[tuple[str, str]]:
        name = self._resolved(node.func).rpartition(".")[2]
        if isinstance(node.func, ast.Name) and node.func.id in _BY_NAME and node.func.id not in self._bound:
            name = node.func.id
            match node.args:
                case [of, ast.Constant(value=str(literal)), *_]:
                    dotted = f"{self._resolved(of)}.{literal}"
                    yield from self._notes_on_access(of, literal, dotted, is_read=True)
                case _:
                    yield name, _COMPUTED
        elif name in _GETTERS:
            for argument in node.args[:1] if name == "methodcaller" else node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    for part in argument.value.split("."):
                        yield from self._notes_on_attribute_name(part, "")
                else:
                    yield name, _COMPUTED

    def _is_module(self, owner: ast.expr, name: str, dotted: str) -> bool:
        return not _self_or_super(owner) and (name not in _WORDS or dotted.partition(".")[0] in self._imports)

    def _resolved(self, node: ast.expr) -> str:
        dotted = dotted_name(node)
        first, dot, rest = dotted.partition(".")
        return f"{self._aliases.get(first, first)}{dot}{rest}"


def _modules(rule: NameRule, root: str) -> frozenset[str]:
    """Return the modules of a rule below `root`: `torch.signal` is signal processing."""
    return rule.modules - {"signal"} if root in _OF_SIGNAL_PROCESSING else rule.modules


def _sentence_of(dotted: str) -> str:
    return next(rule.sentence for rule in RULES if dotted in rule.dotted)


def _self_or_super(node: ast.expr) -> str:
    """Return `self`, `cls` or `super()` if the attribute is read from it; otherwise an empty text."""
    match node:
        case ast.Name(id=name) if name in _OWNERS:
            return name
        case ast.Call(func=ast.Name(id="super"), args=[] | [_, ast.Name(id="self" | "cls")]):
            return "super()"
    return ""


def _bound_at_top(tree: ast.Module) -> frozenset[str]:
    """Return the names that the file imports or defines at top level and never deletes."""
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=imports) | ast.ImportFrom(names=imports):
                names.update(alias.asname or alias.name for alias in imports)
    deleted = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
    return frozenset(names - deleted)


def _own_attributes(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the attributes that the file's classes define, and those of `nn.Module`."""
    attributes = {"_buffers", "_modules", "_parameters"}
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()) if _self_or_super(node.value):
                attributes.add(name)
            case ast.ClassDef(body=body):
                for part in body:
                    match part:
                        case (
                            ast.FunctionDef(name=name)
                            | ast.AsyncFunctionDef(name=name)
                            | ast.AnnAssign(target=ast.Name(id=name))
                        ):
                            attributes.add(name)
                        case ast.Assign(targets=targets):
                            attributes.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.Call(args=[ast.Constant(value=str(name)), *_], func=ast.Attribute(attr=registers)) if (
                registers.startswith("register_")
            ):
                attributes.add(name)
    return frozenset(attributes)
