"""Move and merge modules of gpututor by a table, and rewrite every reference to them.

    python tools/restructure.py tools/moves.tsv [--only PREFIX] [--check]

The table has a line for each new module: its name, its docstring, and the modules that it is made of, in order,
separated by tabs (the last by spaces). `tools/renames.tsv` has new names for definitions that would collide:
`old.module:name`, a tab, the new name. `--check` reports collisions and changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("gpututor", "tests", "benchmarks", "exercises", "docs", "tools")
TEXT_SUFFIXES = (".md", ".toml", ".txt", ".json", ".cfg", ".yml", ".yaml", ".tcss", ".sh")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def module_path(name: str, packages: set[str]) -> Path:
    base = ROOT.joinpath(*name.split("."))
    return base / "__init__.py" if name in packages else base.with_suffix(".py")


@dataclass
class Source:
    name: str
    path: Path
    text: str
    tree: ast.Module
    is_package: bool
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Bound name → (module, name in it; empty for `import module`)."""


@dataclass
class Move:
    target: str
    doc: str
    sources: list[str]


class Repo:
    def __init__(self) -> None:
        self.files: dict[Path, str] = {}
        self.sources: dict[str, Source] = {}
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            path = ROOT / line
            if not path.is_file():
                continue
            if path.suffix == ".py" and line.split("/")[0] in CODE:
                self.files[path] = path.read_text()
            elif path.suffix in TEXT_SUFFIXES or path.name in ("Makefile", "run"):
                try:
                    self.files[path] = path.read_text()
                except UnicodeDecodeError:
                    continue
        for path, text in self.files.items():
            if path.suffix == ".py" and path.is_relative_to(ROOT / "gpututor"):
                name = module_name(path)
                self.sources[name] = Source(name, path, text, ast.parse(text), path.name == "__init__.py")
        for source in self.sources.values():
            for statement in source.tree.body:
                for name in bound_names(statement):
                    source.defined[name] = statement
                for sub in [statement, *(statement.body if isinstance(statement, ast.If) else [])]:
                    if isinstance(sub, ast.ImportFrom) and sub.module:
                        for alias in sub.names:
                            source.imported[alias.asname or alias.name] = (sub.module, alias.name)
                    elif isinstance(sub, ast.Import):
                        for alias in sub.names:
                            source.imported[alias.asname or alias.name.split(".")[0]] = (alias.name, "")


def bound_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [
            n.id
            for t in statement.targets
            for n in ast.walk(t)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    if isinstance(statement, ast.If | ast.Try | ast.With | ast.For):
        names = []
        for sub in ast.walk(statement):
            if sub is not statement and isinstance(sub, ast.stmt) and not isinstance(sub, ast.Import | ast.ImportFrom):
                names += bound_names(sub) if not isinstance(sub, ast.If | ast.Try | ast.With | ast.For) else []
        return names
    return []


SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def local_bindings(scope: ast.AST) -> tuple[set[str], set[str], dict[str, tuple[str, str]]]:
    """Names bound in a scope (not in nested ones), its `global` names, and its imports of gpututor."""
    names: set[str] = set()
    globals_: set[str] = set()
    imports: dict[str, tuple[str, str]] = {}
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        a = scope.args
        names |= {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))}
        todo: list[ast.AST] = list(scope.body) if isinstance(scope.body, list) else [scope.body]
    elif isinstance(scope, ast.ClassDef):
        todo = list(scope.body)
    else:
        todo = [*scope.generators]  # type: ignore[attr-defined]
        for generator in scope.generators:  # type: ignore[attr-defined]
            names |= {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            todo += [*node.decorator_list]
            continue
        if isinstance(node, SCOPES):
            for sub in ast.walk(node):
                if isinstance(sub, ast.NamedExpr) and isinstance(sub.target, ast.Name):
                    names.add(sub.target.id)
            continue
        if isinstance(node, ast.Global | ast.Nonlocal):
            globals_ |= set(node.names)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names.add(alias.asname or alias.name)
                imports[alias.asname or alias.name] = (node.module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                names.add(alias.asname or alias.name.split(".")[0])
                imports[alias.asname or alias.name.split(".")[0]] = (alias.name, "")
        todo += list(ast.iter_child_nodes(node))
    return names - globals_, globals_, imports


class Resolver(ast.NodeVisitor):
    """Calls `on_name(node, binding, parents)` for each name: binding is None for a module-level one."""

    def __init__(self, on_name) -> None:  # type: ignore[no-untyped-def]
        self.on_name = on_name
        self.stack: list[tuple[ast.AST, set[str], dict[str, tuple[str, str]]]] = []

    def visible(self, name: str) -> tuple[bool, dict[str, tuple[str, str]] | None]:
        """True if the name is bound by a local scope; and the imports of that scope."""
        for depth, (scope, names, imports) in enumerate(reversed(self.stack)):
            if isinstance(scope, ast.ClassDef) and depth:
                continue
            if name in names:
                return True, imports
        return False, None

    def visit_Name(self, node: ast.Name) -> None:
        self.on_name(node, None, self)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name):
            self.on_name(node.value, node, self)
        else:
            self.visit(node.value)

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, SCOPES):
            super().generic_visit(node)
            return
        outer: list[ast.AST | None] = []
        inner: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            arguments = (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))
            outer = [
                *node.decorator_list,
                *a.defaults,
                *a.kw_defaults,
                node.returns,
                *(arg.annotation for arg in arguments),
            ]
            inner = list(node.body)
        elif isinstance(node, ast.Lambda):
            outer = [*node.args.defaults, *node.args.kw_defaults]
            inner = [node.body]
        elif isinstance(node, ast.ClassDef):
            outer = [*node.decorator_list, *node.bases, *node.keywords]
            inner = list(node.body)
        else:
            outer = [node.generators[0].iter]  # type: ignore[attr-defined]
            inner = [getattr(node, part) for part in ("elt", "key", "value") if hasattr(node, part)]
            for index, generator in enumerate(node.generators):  # type: ignore[attr-defined]
                inner += [generator.target, *generator.ifs] + ([generator.iter] if index else [])
        for part in outer:
            if part is not None:
                self.visit(part)
        names, _, imports = local_bindings(node)
        self.stack.append((node, names, imports))
        for part in inner:
            if part is not None:
                self.visit(part)
        self.stack.pop()


class Edits:
    """Replacements of spans of a text, given in lines and columns of UTF-8 bytes as `ast` has them."""

    def __init__(self, text: str) -> None:
        self.lines = [line.encode() for line in text.splitlines(keepends=True)]
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.data = b"".join(self.lines)
        self.edits: list[tuple[int, int, bytes]] = []

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def replace(self, node: ast.AST, new: str) -> None:
        begin = self.at(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = self.at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        self.edits.append((begin, end, new.encode()))

    def result(self) -> str:
        data = self.data
        last = len(data) + 1
        for begin, end, new in sorted(set(self.edits), reverse=True):
            if end > last:
                raise ValueError(f"overlapping edits: {new!r}")
            data = data[:begin] + new + data[end:]
            last = begin
        return data.decode()


class Restructure:
    def __init__(self, moves: list[Move], renames: dict[tuple[str, str], str]) -> None:
        self.repo = Repo()
        self.moves = moves
        self.renames = renames
        self.problems: list[str] = []
        self.to: dict[str, str] = {}
        for move in moves:
            for source in move.sources:
                if source not in self.repo.sources:
                    self.problems.append(f"{move.target}: no module {source}")
                elif source in self.to:
                    self.problems.append(f"{source} is moved twice")
                self.to[source] = move.target
        for name in self.repo.sources:  # modules that stay
            self.to.setdefault(name, name)
        self.packages = {
            name
            for name, source in self.repo.sources.items()
            if source.is_package
            and self.to[name] == name
            and (
                name not in {move.target for move in moves}
                or any(other.startswith(name + ".") for other in self.to.values())
            )
        }
        for move in moves:
            if any(other != move.target and other.startswith(move.target + ".") for other in self.to.values()):
                self.packages.add(move.target)
            for number in range(2, move.target.count(".") + 1):
                self.packages.add(".".join(move.target.split(".")[:number]))
        targets = {move.target for move in moves}
        for name, to in self.to.items():
            if name == to and name in targets and not any(name in move.sources for move in moves):
                self.problems.append(f"{name} exists and is not among the sources of itself")

        for move in moves:
            move.sources = self._in_order(move.sources)

    def _in_order(self, names: list[str]) -> list[str]:
        """Put each module after those of the same target that it imports at its top."""
        ordered: list[str] = []

        def add(name: str, above: tuple[str, ...]) -> None:
            source = self.repo.sources.get(name)
            if name in ordered or name in above or source is None:
                return
            for module, what in source.imported.values():
                for other in (module, f"{module}.{what}"):
                    if other in names and other != name:
                        add(other, (*above, name))
            ordered.append(name)

        for name in names:
            add(name, ())
        return ordered

    def new_name(self, module: str, name: str) -> str:
        return self.renames.get((module, name), name)

    def is_module(self, module: str, name: str) -> bool:
        package = self.repo.sources.get(module)
        if package is not None and (name in package.defined or package.imported.get(name, ("", name)) != ("", name)):
            if package.imported.get(name) != (module, name):
                return False  # the package has a function of that name
        return f"{module}.{name}" in self.repo.sources

    # collisions

    def check(self) -> None:
        for move in self.moves:
            owners: dict[str, dict[str, str]] = defaultdict(dict)
            for name in move.sources:
                source = self.repo.sources.get(name)
                if source is None:
                    continue
                for defined, statement in source.defined.items():
                    owners[self.new_name(name, defined)][name] = ast.unparse(statement)
                for bound, (module, what) in source.imported.items():
                    if self.to.get(module) == move.target or self.to.get(f"{module}.{what}") == move.target:
                        continue
                    if bound == "annotations":
                        continue
                    if not what:
                        text = f"import {bound}"
                    elif self.is_module(module, what):
                        text = f"module {self.to[f'{module}.{what}']}"
                        if bound == what:
                            continue  # renamed where it is used
                    else:
                        text = f"from {self.to.get(module, module)} import {self.new_name(module, what)}"
                    owners[bound][f"{name} imports"] = text
            for defined, places in owners.items():
                if len(places) > 1 and len(set(places.values())) > 1 and defined != "__all__":
                    self.problems.append(f"{move.target}: {defined} is in {', '.join(places)}")

    def cycles(self) -> list[list[str]]:
        """Return the circles of imports among the new modules, late and type-only imports included."""
        graph: dict[str, set[str]] = defaultdict(set)
        self.why: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name, source in self.repo.sources.items():
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        whole = f"{node.module}.{alias.name}"
                        old = whole if whole in self.to else node.module
                        if old in self.to and self.to[old] != self.to[name]:
                            graph[self.to[name]].add(self.to[old])
                            late = "" if node in source.tree.body else " (late)"
                            self.why[self.to[name], self.to[old]].append(f"{name} → {old}.{alias.name}{late}")
        index: dict[str, int] = {}
        low: dict[str, int] = {}
        stack: list[str] = []
        circles: list[list[str]] = []

        def visit(node: str) -> None:
            index[node] = low[node] = len(index)
            stack.append(node)
            for other in graph[node]:
                if other not in index:
                    visit(other)
                    low[node] = min(low[node], low[other])
                elif other in stack:
                    low[node] = min(low[node], index[other])
            if low[node] == index[node]:
                circle = []
                while True:
                    circle.append(stack.pop())
                    if circle[-1] == node:
                        break
                if len(circle) > 1:
                    circles.append(sorted(circle))

        sys.setrecursionlimit(10000)
        for node in list(graph):
            if node not in index:
                visit(node)
        return circles

    # rewriting of one file

    def rewrite(self, path: Path, text: str) -> str:
        tree = ast.parse(text)
        module = module_name(path)
        here = self.to.get(module, module)
        edits = Edits(text)
        module_names = {n for st in tree.body for n in bound_names(st)}
        all_bound = module_names | {
            n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        all_bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        all_bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        imported_as: dict[str, set[str]] = defaultdict(set)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                for alias in node.names:
                    base = node.module + "." if isinstance(node, ast.ImportFrom) and node.module else ""
                    imported_as[alias.asname or alias.name].add(base + alias.name)
        alias_to: dict[str, str] = {}
        """Bound name of a moved module → how it is called after the move ('' for the file's own target)."""

        def new_alias(bound: str, old: str) -> str:
            new = self.to[old]
            last = new.rpartition(".")[2]
            if new == here:
                return ""
            if bound != old.rpartition(".")[2]:
                return bound  # an alias that the author chose
            if last == bound:
                return bound
            clash = last in all_bound or any(self.to.get(full, full) != new for full in imported_as.get(last, ()))
            return bound if clash else last

        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.level == 0
                and node.module.split(".")[0] == "gpututor"
            ):
                lines: list[str] = []
                changed = False
                groups: dict[str, list[str]] = defaultdict(list)
                for alias in node.names:
                    bound = alias.asname or alias.name
                    if self.is_module(node.module, alias.name):
                        old = f"{node.module}.{alias.name}"
                        new = self.to[old]
                        called = new_alias(bound, old)
                        if bound in alias_to and alias_to[bound] != called:
                            self.problems.append(f"{path}: {bound} is two modules")
                        alias_to[bound] = called
                        if new == here and module != here or (new == here and old != module):
                            changed = True
                            continue
                        changed |= new != old
                        base, _, last = new.rpartition(".")
                        groups[base].append(last if called == last else f"{last} as {called}")
                    else:
                        new = self.to.get(node.module, node.module)
                        name = self.new_name(node.module, alias.name)
                        changed |= new != node.module or name != alias.name
                        if new == here and node.module != module:
                            changed = True
                            if alias.asname and alias.asname != name:
                                self.problems.append(f"{path}: {alias.name} as {alias.asname} of the same target")
                            continue
                        if new == here:
                            self.problems.append(f"{path}: imports itself")
                        as_ = alias.asname or (alias.name if name != alias.name and alias.name in all_bound else "")
                        groups[new].append(name if not alias.asname else f"{name} as {alias.asname}")
                        del as_
                if changed:
                    lines = [f"from {base} import {', '.join(names)}" for base, names in groups.items()]
                    indent = " " * node.col_offset
                    edits.replace(node, f"\n{indent}".join(lines) or "pass")
            elif isinstance(node, ast.Import):
                parts = []
                changed = False
                for alias in node.names:
                    new = self.to.get(alias.name, alias.name)
                    changed |= new != alias.name
                    parts.append(new + (f" as {alias.asname}" if alias.asname else ""))
                if changed:
                    edits.replace(node, f"import {', '.join(parts)}")

        renamed_imports = {
            bound: self.new_name(mod, name)
            for bound, (mod, name) in self._imports(tree).items()
            if self.new_name(mod, name) != name and bound == name
        }

        def on_name(node: ast.Name, attribute: ast.Attribute | None, resolver: Resolver) -> None:
            is_local, imports = resolver.visible(node.id)
            if node.id in alias_to and (not is_local or (imports and node.id in imports)):
                called = alias_to[node.id]
                old = self._module_of(tree, node.id)
                name = self.new_name(old, attribute.attr) if attribute and old else ""
                if called == "":
                    if attribute is None:
                        self.problems.append(f"{path}:{node.lineno}: {node.id} is used as an object of its own target")
                        return
                    if resolver.visible(name)[0]:
                        self.problems.append(f"{path}:{node.lineno}: {name} of {node.id} is hidden by a local name")
                    edits.replace(attribute, name)
                elif attribute is not None and name != attribute.attr:
                    edits.replace(attribute, f"{called}.{name}")
                elif called != node.id:
                    if resolver.visible(called)[0]:
                        self.problems.append(f"{path}:{node.lineno}: {called} is hidden by a local name")
                    edits.replace(node, called)
                return
            if is_local and not (imports and node.id in imports and node.id in renamed_imports):
                return
            if node.id in renamed_imports:
                edits.replace(node, renamed_imports[node.id])
            elif (module, node.id) in self.renames and node.id in module_names:
                edits.replace(node, self.renames[module, node.id])

        Resolver(on_name).visit(tree)
        for statement in ast.walk(tree):
            if isinstance(statement, ast.Global):
                new = [self.renames.get((module, n), n) for n in statement.names]
                if new != statement.names:
                    edits.replace(statement, f"global {', '.join(new)}")
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                new_ = self.renames.get((module, statement.name))
                if new_:
                    keyword = {ast.FunctionDef: "def", ast.AsyncFunctionDef: "async def", ast.ClassDef: "class"}[
                        type(statement)
                    ]
                    begin = edits.at(statement.lineno, statement.col_offset)
                    length = len(f"{keyword} {statement.name}".encode())
                    edits.edits.append((begin, begin + length, f"{keyword} {new_}".encode()))
        return edits.result()

    def _imports(self, tree: ast.Module) -> dict[str, tuple[str, str]]:
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }

    def _module_of(self, tree: ast.Module, bound: str) -> str:
        module, name = self._imports(tree).get(bound, ("", ""))
        return f"{module}.{name}"

    # strings, comments and other files

    def rewrite_strings(self, path: Path, text: str) -> str:
        if path.suffix != ".py":
            return self._dotted(text)
        lines = text.splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        out, last = [], 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                begin = starts[token.start[0] - 1] + token.start[1]
                end = starts[token.end[0] - 1] + token.end[1]
                out += [text[last:begin], self._dotted(text[begin:end])]
                last = end
        return "".join((*out, text[last:]))

    def _dotted(self, text: str) -> str:
        def replaced(match: re.Match[str]) -> str:
            parts = match[0].split(".")
            for length in range(len(parts), 1, -1):
                old = ".".join(parts[:length])
                if old in self.to:
                    rest = parts[length:]
                    if rest:
                        rest[0] = self.new_name(old, rest[0])
                    return ".".join((self.to[old], *rest))
            return match[0]

        def replaced_path(match: re.Match[str]) -> str:
            old = match[0].removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            if old in self.to and self.to[old] != old:
                return str(module_path(self.to[old], self.packages).relative_to(ROOT))
            return match[0]

        def replaced_import(match: re.Match[str]) -> str:
            old = f"{match[1]}.{match[2]}"
            if old not in self.to or self.to[old] == old:
                return match[0]
            base, _, last = self.to[old].rpartition(".")
            return f"from {base} import {last}" + ("" if last == match[2] else f" as {match[2]}")

        text = re.sub(r"\bfrom (gpututor[\w.]*) import (\w+)\b(?!,| as)", replaced_import, text)
        text = re.sub(r"\bgpututor(?:/\w+)+\.py\b", replaced_path, text)
        return re.sub(r"(?<![\w./])gpututor(?:\.\w+)+", replaced, text)

    # merging

    def merged(self, move: Move) -> str:
        docs, imports, typing_imports, bodies, exported = [], [], [], [], []
        assigned: set[str] = set()
        for name in move.sources:
            source = self.repo.sources[name]
            text = self.rewrite(source.path, source.text)
            tree = ast.parse(text)
            lines = text.splitlines()
            statements = list(tree.body)
            first = 0
            if statements and (doc := ast.get_docstring(tree, clean=True)) is not None:
                docs.append(doc)
                first = statements[0].end_lineno or 0
                statements = statements[1:]
            cut: list[tuple[int, int]] = [(1, first)]
            for statement in statements:
                span = (statement.lineno, statement.end_lineno or statement.lineno)
                if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                    cut.append(span)
                elif isinstance(statement, ast.Import | ast.ImportFrom):
                    comment = lines[span[1] - 1]
                    imports.append("\n".join((*lines[span[0] - 1 : span[1] - 1], comment)))
                    cut.append(span)
                elif (
                    isinstance(statement, ast.If)
                    and ast.unparse(statement.test) == "TYPE_CHECKING"
                    and not statement.orelse
                ):
                    for sub in statement.body:
                        typing_imports.append("\n".join(lines[sub.lineno - 1 : sub.end_lineno]))
                    cut.append(span)
                elif isinstance(statement, ast.Pass):
                    cut.append(span)
                elif isinstance(statement, ast.Assign | ast.AnnAssign) and ast.unparse(statement) in assigned:
                    cut.append(span)
                elif isinstance(statement, ast.Assign) and any(
                    isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets
                ):
                    exported += [element.value for element in statement.value.elts]  # type: ignore[attr-defined]
                    cut.append(span)
            assigned |= {ast.unparse(st) for st in statements if isinstance(st, ast.Assign | ast.AnnAssign)}
            gone = {line for begin, end in cut for line in range(begin, end + 1)}
            body = "\n".join(line for number, line in enumerate(lines, 1) if number not in gone).strip("\n")
            bodies.append(body)
        doc = self.docstring(move, docs)
        parts = [f'"""{doc}"""', "from __future__ import annotations", "\n".join(imports)]
        if typing_imports:
            parts.append("if TYPE_CHECKING:\n" + "\n".join(typing_imports))
        if exported:
            parts.append(f"__all__ = {sorted(set(exported))!r}")
        return "\n\n".join(part for part in parts if part) + "\n\n\n" + "\n\n\n".join(filter(None, bodies)) + "\n"

    def docstring(self, move: Move, docs: list[str]) -> str:
        if move.doc in ("", "-"):
            return "\n\n".join(docs) + ("\n" if "\n" in "\n\n".join(docs) else "")
        more = [paragraph for doc in docs for paragraph in doc.split("\n\n")[1:]]
        return "\n\n".join((move.doc, *more)) + ("\n" if more else "")

    def apply(self) -> None:
        new: dict[Path, str] = {}
        gone: list[Path] = []
        renames: list[tuple[Path, Path]] = []
        moved = {source for move in self.moves for source in move.sources}
        for move in self.moves:
            target = module_path(move.target, self.packages)
            if not move.sources:
                new[target] = f'"""{move.doc}"""\n'
                continue
            text = self.rewrite_strings(target, self.merged(move)) if len(move.sources) > 1 else None
            paths = [self.repo.sources[name].path for name in move.sources]
            if text is None:
                only = self.repo.sources[move.sources[0]]
                text = self.rewrite_strings(only.path, self.rewrite(only.path, only.text))
                if move.doc not in ("", "-"):
                    tree = ast.parse(text)
                    old = ast.get_docstring(tree, clean=True)
                    if old is not None:
                        edits = Edits(text)
                        edits.replace(tree.body[0], f'"""{self.docstring(move, [old])}"""')
                        text = edits.result()
            new[target] = text
            main = target if target in paths else max(paths, key=lambda path: len(self.repo.files[path]))
            if main != target:
                renames.append((main, target))
            gone += [path for path in paths if path not in (main, target)]
        for path, text in self.repo.files.items():
            if path.suffix == ".py" and path.is_relative_to(ROOT / "gpututor") and module_name(path) in moved:
                continue
            if path.is_relative_to(ROOT / "tools"):
                continue
            changed = self.rewrite_strings(path, self.rewrite(path, text) if path.suffix == ".py" else text)
            if changed != text:
                new[path] = changed
        for path in new:
            if path.suffix == ".py":
                try:
                    ast.parse(new[path])
                except SyntaxError as error:
                    self.problems.append(f"{path}: {error}")
        if self.problems:
            return
        for before, after in renames:
            after.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", "-f", str(before), str(after)], cwd=ROOT, check=True)
        for path in gone:
            subprocess.run(["git", "rm", "-q", "-f", str(path)], cwd=ROOT, check=True)
        for path, text in new.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for package in sorted(self.packages):
            init = ROOT.joinpath(*package.split(".")) / "__init__.py"
            if not init.exists() and init.parent.exists():
                print(f"no {init.relative_to(ROOT)} yet")
        python = [str(path) for path in new if path.suffix == ".py"]
        for command in (["check", "-q", "--fix", "--select", "I,F401,F811,PIE790"], ["format", "-q"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, *python], cwd=ROOT, check=False)
        for path, text in new.items():
            left = [word for word in ("__file__", "__package__", "__doc__", "importlib.resources") if word in text]
            if left and path.is_relative_to(ROOT / "gpututor") and any(after == path for _, after in renames):
                print(f"look at {path.relative_to(ROOT)}: {', '.join(left)}")
        print(f"{len(self.moves)} modules made of {len(moved)}; {len(new)} files changed")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path)
    parser.add_argument("--only", default="gpututor.", help="prefixes of new modules, separated by commas")
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    prefixes = tuple(arguments.only.split(","))
    moves = []
    for line in arguments.table.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            target, doc, sources = line.split("\t")
            if target.startswith(prefixes):
                moves.append(Move(target, doc, sources.split()))
    renames = {}
    table = arguments.table.with_name("renames.tsv")
    for line in table.read_text().splitlines() if table.exists() else ():
        if line.strip() and not line.startswith("#"):
            old, new = line.split("\t")
            module, name = old.split(":")
            renames[module, name] = new
    work = Restructure(moves, renames)
    work.check()
    if arguments.cycles:
        for circle in work.cycles():
            print("circle:", ", ".join(circle))
            for (one, other), why in sorted(work.why.items()):
                if one in circle and other in circle:
                    print(f"    {one} → {other}: {'; '.join(why)}")
        return 0
    if not arguments.check and not work.problems:
        work.apply()
    for problem in work.problems:
        print(problem)
    return 1 if work.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
