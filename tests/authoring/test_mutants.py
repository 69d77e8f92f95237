"""Mutants: each has one named change on its line, and the rest of the file is unchanged."""

from __future__ import annotations

import ast
import contextlib
import io
from types import SimpleNamespace
from typing import Any

import pytest

from gpututor.authoring.mutants import MARK, ParsedSource, mutants_of

HEAD = "import torch\n\n\ndef f(batch, weights, device, stream, devices):\n"
FIRST = 5
"""First line of the body."""


def changes(*body: str) -> dict[str, str]:
    """Return the changed bodies of a function by the names of the changes."""
    source = HEAD + "".join(f"    {line}\n" for line in body)
    mutants = {}
    for mutant in mutants_of(source):
        ast.parse(mutant.source)
        assert mutant.source != source
        assert mutant.change not in mutants, "two changes have the same name"
        mutants[mutant.change] = "\n".join(line[4:] for line in mutant.source.splitlines()[FIRST - 1 :])
    return mutants


@pytest.mark.parametrize(
    ("line", "change", "becomes"),
    [
        ("batch.to(device)", "drop .to(device) of batch", "(batch)"),
        ("(batch + 1).to(device) * 2", "drop .to(device) of batch + 1", "(batch + 1) * 2"),
        ("batch.cuda()", "drop .cuda() of batch", "(batch)"),
        ("batch.cpu()", "drop .cpu() of batch", "(batch)"),
        ("batch.pin_memory()", "drop .pin_memory() of batch", "(batch)"),
        ("batch.to(device)", "replace device by 'cpu' in batch.to(device)", "batch.to(('cpu'))"),
        ("torch.cuda.synchronize()", "drop torch.cuda.synchronize()", "pass"),
        ("stream.wait_stream(other)", "drop stream.wait_stream(other)", "pass"),
        ("batch.record_stream(stream)", "drop batch.record_stream(stream)", "pass"),
        ("torch.cuda.set_device(1)", "drop torch.cuda.set_device(1)", "pass"),
        ("f(batch, non_blocking=True)", "drop non_blocking=True of f(…)", "f(batch)"),
        ("f(non_blocking=True, x=1)", "drop non_blocking=True of f(…)", "f( x=1)"),
        ("f(non_blocking=True)", "drop non_blocking=True of f(…)", "f()"),
        ("f(non_blocking=True,)", "drop non_blocking=True of f(…)", "f()"),
        ("torch.zeros(3, device=device)", "drop device=device of torch.zeros(…)", "torch.zeros(3)"),
        ("load(it, pin_memory=True)", "drop pin_memory=True of load(…)", "load(it)"),
        ("x['cuda:0']", "replace 'cuda:0' by 'cuda:1'", "x[('cuda:1')]"),
        ("g('cuda:1')", "replace 'cuda:1' by 'cuda:0'", "g(('cuda:0'))"),
        ("g('cuda')", "replace 'cuda' by 'cpu'", "g(('cpu'))"),
        ("g(f'cuda:{batch}')", "replace f'cuda:{batch}' by 'cuda:0'", "g(('cuda:0'))"),
        ("batch.to(devices[0])", "replace devices[0] by devices[1]", "batch.to((devices[1]))"),
        ("with torch.no_grad(): pass", "drop with torch.no_grad()", "with (nothing()): pass"),
        ("with torch.cuda.stream(s): pass", "drop with torch.cuda.stream(s)", "with (nothing()): pass"),
        ("with stream: pass", "drop with stream", "with (nothing()): pass"),
        ("with torch.autocast('x') as a, b: pass", "drop with torch.autocast('x')", "with (nothing()) as a, b: pass"),
        ("context = torch.inference_mode()", "drop torch.inference_mode()", "context = (nothing())"),
        ("x[~batch]", "drop ~ of batch", "x[(batch)]"),
        ("batch * mask", "drop mask of batch * mask", "(batch)"),
        ("x.masked_fill(m, 0)", "invert m in x.masked_fill(m, 0)", "x.masked_fill((~(m)), 0)"),
        ("torch.masked_fill(x, m, 0)", "invert m in torch.masked_fill(x, m, 0)", "torch.masked_fill(x, (~(m)), 0)"),
        ("torch.where(m, x, 0)", "invert m in torch.where(m, x, 0)", "torch.where((~(m)), x, 0)"),
        ("x.where(x > 0, 0)", "invert x > 0 in x.where(x > 0, 0)", "x.where((~(x > 0)), 0)"),
        ("attend(x, attn_mask=m)", "drop attn_mask=m of attend(…)", "attend(x)"),
        ("attend(x, is_causal=True)", "drop is_causal=True of attend(…)", "attend(x)"),
        ("x.sum(dim=0)", "replace dim 0 by 1 in x.sum(dim=0)", "x.sum(dim=(1))"),
        ("x.mean(-1)", "replace dim -1 by -2 in x.mean(-1)", "x.mean((-2))"),
        ("torch.softmax(x, dim=1)", "replace dim 1 by 0 in torch.softmax(x, dim=1)", "torch.softmax(x, dim=(0))"),
        ("torch.amax(x, 0)", "replace dim 0 by 1 in torch.amax(x, 0)", "torch.amax(x, (1))"),
        ("x.sum((0, 2))", "replace dim (0, 2) by (1, 2) in x.sum((0, 2))", "x.sum(((1, 2)))"),
        ("x.sum((0, 1))", "replace dim (0, 1) by (1,) in x.sum((0, 1))", "x.sum(((1,)))"),
        ("f(torch.float32)", "replace torch.float32 by torch.float16", "f((torch.float16))"),
        ("x.double()", "replace .double() by .float() of x", "(x.float())"),
        ("x.float()", "replace .float() by .half() of x", "(x.half())"),
        ("x = f(a @ b)", "in float16: a @ b", "x = f(((lambda a, b: (a.half() @ b.half()).to(a.dtype))((a), (b))))"),
        ("return batch", "return .cpu() of batch", "return ((batch).cpu())"),
        ("return {'a': batch, 'b': 1}", "return .cpu() of batch", "return {'a': ((batch).cpu()), 'b': 1}"),
        ("return batch, 2", "return .cpu() of batch", "return ((batch).cpu()), 2"),
        ("out = batch @ weights", "wait for out: out.cpu()", "out = batch @ weights; out.cpu()"),
        ("out += batch", "wait for out: out.cpu()", "out += batch; out.cpu()"),
    ],
)
def test_each_change_has_a_name(line: str, change: str, becomes: str) -> None:
    mutants = changes(line)
    assert change in mutants
    assert mutants[change] == becomes


@pytest.mark.parametrize(
    ("line", "change", "begins"),
    [
        ("batch.detach()", "drop .detach() of batch", "((lambda it: (it.requires_grad and print('gpututor: "),
        ("return batch", "return .detach() of batch", "return ((lambda it: (it.requires_grad and print('gpututor: "),
    ],
)
def test_a_detach_prints_a_mark_when_it_takes_effect(line: str, change: str, begins: str) -> None:
    assert changes(line)[change].startswith(begins)
    assert [mutant.marks for mutant in mutants_of(f"{HEAD}    {line}\n") if mutant.change == change] == [True]


def test_a_dropped_zero_grad_prints_a_mark_if_there_was_a_gradient() -> None:
    (mutant,) = mutants_of(f"{HEAD}    optimiser.zero_grad(set_to_none=True)\n    return 1\n")
    assert (mutant.change, mutant.marks) == ("drop optimiser.zero_grad(set_to_none=True)", True)
    for grad, printed in ((None, ""), (1, f"{MARK}\n")):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            namespace: dict[str, Any] = {"torch": None}
            exec(mutant.source.replace("import torch", "").replace("optimiser", "batch"), namespace)
            namespace["f"](SimpleNamespace(parameters=lambda grad=grad: [SimpleNamespace(grad=grad)]), *[None] * 4)
        assert said.getvalue() == printed


@pytest.mark.parametrize(
    "line",
    [
        *("return", "return None", "return float(batch)", "steps = 3", "steps = len(batch)"),
        *("layer = torch.nn.Linear(2, 3)", "batch.add(1)", "f(batch, non_blocking=False)", "print(f'{batch}')"),
        *("torch.device", "batch @ weights", "batch.sum()", "torch.stack(batch, dim=0)", "torch.split(batch, 1)"),
        *("attend(batch, attn_mask=None)", "attend(batch, is_causal=False)", "f(torch.int64)"),
        "torch.where(batch)",
    ],
)
def test_these_lines_have_no_mutants(line: str) -> None:
    assert changes(line) == {}


def test_decorators_have_mutants_but_no_scripts_annotations_and_docstrings() -> None:
    (mutant,) = mutants_of("import torch\n\n\n@torch.no_grad()\ndef f(x):\n    pass\n")
    assert (mutant.line, mutant.change) == (4, "drop @torch.no_grad()")
    assert mutant.source.splitlines()[3] == "@(lambda function: function)"
    source = 'import torch\n\n\ndef f(x: "cuda" = 1) -> "cuda:0":\n    "cuda"\n    x.to_list()\n\n\n'
    assert mutants_of(source + 'if __name__ == "__main__":\n    print(f(1).to("cuda"))\n') == ()
    with pytest.raises(SyntaxError):
        ParsedSource("def f(:\n")


def test_mutants_keep_line_numbers_and_change_one_line() -> None:
    source = HEAD + (
        "    batch = batch.to(\n        device,\n        non_blocking=True,\n    )\n"
        "    with torch.cuda.stream(\n        stream\n    ):\n        batch.record_stream(\n            stream)\n"
        "    return batch\n"
    )
    mutants = mutants_of(source)
    assert len(mutants) > 6
    for mutant in mutants:
        assert mutant.source.splitlines()[-1].startswith("    return "), mutant
        assert len(mutant.source.splitlines()) == len(source.splitlines()), mutant
    from tests.support.shipped_course import COURSE

    for exercise in COURSE.exercises:
        before = exercise.solution.splitlines()
        for mutant in mutants_of(exercise.solution):
            after = mutant.source.splitlines()
            assert len(after) == len(before)
            changed = [number for number, pair in enumerate(zip(before, after, strict=True), 1) if len(set(pair)) > 1]
            assert mutant.line in changed
            assert "\n" not in mutant.change


def test_columns_are_bytes_and_each_block_has_two_waits() -> None:
    mutants = changes("words = '…×…'; batch = batch.to(device)  # …")
    assert mutants["drop .to(device) of batch"] == "words = '…×…'; batch = (batch)  # …"
    lines = ("a = batch @ weights", "b = a @ weights", "c = b @ weights", "for _ in x:", "    d = c @ c")
    waits = [change for change in changes(*lines) if change.startswith("wait")]
    assert waits == ["wait for b: b.cpu()", "wait for c: c.cpu()", "wait for d: d.cpu()"]
    (wait,) = [mutant for mutant in mutants_of(HEAD + "    c = (\n        a @ b\n    )\n") if mutant.adds == "cpu"]
    assert wait.source.splitlines()[wait.line - 1] == "    ); c.cpu()"
