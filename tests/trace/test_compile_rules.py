"""Advice on compiled code: graph breaks and repeated compilation."""

from __future__ import annotations

from gpututor.trace.advice import collect_advice
from gpututor.trace.arrays import Place, TraceArrays
from gpututor.trace.events import COMPILES, GRAPH_BREAK, RECOMPILES, REGION, UNCOMPILED, Kind
from tests.support.traces import FILE, MS, US, Program


def _range(program: Program, name: str, time: int, line: int) -> None:
    began = program.now
    program.now += time
    program.trace.add(Kind.RANGE, name, "cpu", launched=began, start=began, end=program.now, file=FILE, line=line)


def _compiled(
    *graphs: str, calls: int = 20, recompiles: tuple[str, ...] = (), breaks: dict[int, str] | None = None
) -> Program:
    """Return a program that compiles graphs and calls each of them; a kernel of 1 ms follows each call."""
    program = Program()
    for line, reason in (breaks or {}).items():
        _range(program, GRAPH_BREAK + reason, 0, line)
    for reason in recompiles:
        _range(program, RECOMPILES + reason, 0, 20)
    for graph in graphs:
        _range(program, f"{COMPILES}{graph}, 3 kernels", 500 * MS, 20)
    for _ in range(calls):
        for graph in graphs:
            _range(program, REGION + graph, 200 * US, 20)
            program.kernel(9, MS)
    return program


def _rules(program: Program) -> dict[str, tuple[Place, tuple[Place, ...], int]]:
    advice = collect_advice(TraceArrays(program.trace), (), {}, None)
    return {each.rule: (each.place, each.others, each.gain) for each in advice}


def test_code_that_compiles_once_without_breaks_gets_no_advice() -> None:
    assert _rules(_compiled("0/0")) == {}


def test_breaks_are_named_together() -> None:
    program = _compiled("0/0", "1/0", "2/0", breaks={12: "Tensor.item()", 14: "print"})
    place, others, gain = _rules(program)["graph breaks"]
    assert (place, others) == (Place(FILE, 12), (Place(FILE, 14),))
    # Two thirds of the time in compiled code.
    assert gain == 2 * 20 * 200 * US
    (advice,) = collect_advice(TraceArrays(program.trace), (), {}, None)
    assert "12 (Tensor.item())" in advice.sentence


def test_a_break_is_named_where_the_host_also_waits() -> None:
    program = _compiled("0/0", "1/0", calls=5, breaks={12: "Data-dependent branching"})
    for _ in range(20):
        program.kernel(9, 100 * US)
        program.wait(12, "aten::_local_scalar_dense")
        program.now += 50 * US
    rules = _rules(program)
    assert rules["graph breaks"][0] == rules["waits in a loop"][0] == Place(FILE, 12)


def test_a_function_that_stays_uncompiled_is_named() -> None:
    program = _compiled(breaks={12: "print" + UNCOMPILED})
    for _ in range(5):
        program.kernel(9, MS, name="aten::relu")
    place, _, gain = _rules(program)["graph breaks"]
    assert (place, gain) == (Place(FILE, 12), 5 * MS)


def test_repeated_compilation_costs_what_it_took() -> None:
    program = _compiled("0/0", "0/1", "0/2", recompiles=("size mismatch at index 0", "size mismatch at index 0"))
    place, _, gain = _rules(program)["repeated compilation"]
    assert (place, gain) == (Place(FILE, 20), 2 * 500 * MS)


def test_the_reason_is_that_of_the_line_named() -> None:
    program = Program()
    for line, reason in ((17, "stride mismatch"), (20, "size mismatch"), (9, "flag is False"), (20, "size mismatch")):
        _range(program, RECOMPILES + reason, 0, line)
    for graph in ("0/0", "0/1"):
        _range(program, f"{COMPILES}{graph}, 3 kernels", 500 * MS, 20)
    program.kernel(9, MS)
    (advice,) = collect_advice(TraceArrays(program.trace), (), {}, None)
    assert advice.place == Place(FILE, 20)
    assert "and 2 other lines" in advice.sentence
    assert "size mismatch" in advice.sentence


def test_other_advice_is_measured_without_the_compilation() -> None:
    program = _compiled("0/0", calls=5)
    for _ in range(20):
        program.kernel(9, 100 * US)
        program.wait(30, "aten::_local_scalar_dense")
        program.now += 50 * US
    assert "waits in a loop" in _rules(program)
