"""`torch.Generator` on a virtual GPU: states, offsets, graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu

CUDA: Any = torch.cuda


def _draw(generator: Any, count: int = 2) -> list[float]:
    values: list[float] = torch.rand(count, device=generator.device, generator=generator).tolist()
    return values


def test_generators_of_a_gpu_and_of_the_host_are_cloned_as_torchs(two_gpus: VirtualMachine) -> None:
    made: Any = torch.Generator("cuda:1").manual_seed(3)
    clone = made.clone_state()
    assert clone.device == torch.device("cuda:1")
    assert _draw(made) == _draw(clone)
    assert clone.get_offset() == 4
    assert repr(made).startswith("<torch._C.Generator object at 0x")
    host: Any = torch.Generator().manual_seed(3)
    assert host.clone_state().device == torch.device("cpu")
    assert host.get_state().numel() == torch.get_rng_state().numel()
    assert _draw(host.clone_state()) == _draw(host)
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        host.get_offset()


@pytest.mark.parametrize(
    ("call", "offset"),
    [
        (lambda g: torch.rand(1, device="cuda", generator=g), 4),
        (lambda g: torch.rand(0, device="cuda", generator=g), 0),
        # 108 multiprocessors with 8 blocks of 256 threads draw 4 numbers each.
        (lambda g: torch.rand(108 * 8 * 256 * 4, device="cuda", generator=g), 4),
        (lambda g: torch.rand(108 * 8 * 256 * 4 + 1, device="cuda", generator=g), 8),
        (lambda g: torch.empty(108 * 8 * 256 * 4, device="cuda", dtype=torch.float64).normal_(generator=g), 8),
        (lambda g: torch.poisson(torch.ones(3, device="cuda"), generator=g), 20),
        (lambda g: torch.bernoulli(torch.ones(3, device="cuda"), generator=g), 12),
    ],
)
def test_the_offset_counts_as_cudas_kernels_do(call: Any, offset: int) -> None:
    with virtual_gpu(1, "A100"):
        generator = torch.Generator("cuda").manual_seed(0)
        call(generator)
        assert generator.get_offset() == offset


def test_the_default_generator_counts_dropout_and_follows_a_shared_state(two_gpus: VirtualMachine) -> None:
    default = CUDA.default_generators[0]
    torch.manual_seed(0)
    torch.nn.functional.dropout(torch.ones(8, device="cuda"))
    assert default.get_offset() == 4
    torch.manual_seed(0)
    assert default.get_offset() == 0
    torch.manual_seed(3)
    before, other = default.graphsafe_get_state(), default.clone_state()
    expected = torch.rand(2, device="cuda")
    default.graphsafe_set_state(other)
    assert torch.equal(torch.rand(2, device="cuda"), expected)
    default.graphsafe_set_state(before)
    assert default.get_offset() == 4


def test_a_known_offset_can_be_set_and_an_unknown_one_is_refused(two_gpus: VirtualMachine) -> None:
    generator: Any = torch.Generator("cuda").manual_seed(3)
    first = _draw(generator)
    assert generator.get_offset() == 4
    second = _draw(generator)
    generator.set_offset(4)
    assert _draw(generator) == second
    generator.set_offset(0)
    assert _draw(generator) == first
    with pytest.raises(NotImplementedError, match=r"Generator.set_offset\(400\)"):
        generator.set_offset(400)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(3)


def test_a_state_carries_the_offset(two_gpus: VirtualMachine) -> None:
    generator: Any = torch.Generator("cuda").manual_seed(3)
    _draw(generator)
    state = generator.get_state()
    drawn = _draw(generator)
    other: Any = torch.Generator("cuda:1").manual_seed(9)
    other.set_state(state)
    assert other.get_offset() == 4
    assert _draw(other) == drawn
    with pytest.raises(RuntimeError, match="wrong size"):
        generator.set_state(torch.zeros(16, dtype=torch.uint8))
    with torch.random.fork_rng(devices=[0]):
        torch.rand(4, device="cuda")
    assert CUDA.default_generators[0].get_offset() == 0


def test_graphsafe_states_are_shared_instead_of_copied(two_gpus: VirtualMachine) -> None:
    generator: Any = torch.Generator("cuda").manual_seed(3)
    before = generator.graphsafe_get_state()
    other = generator.clone_state().manual_seed(5)
    generator.graphsafe_set_state(other)
    drawn = _draw(generator)
    assert other.get_offset() == generator.get_offset() == 4
    assert before.get_offset() == 0
    generator.graphsafe_set_state(before)
    assert _draw(generator) != drawn
    assert before.get_offset() == 4
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type"):
        generator.graphsafe_set_state(torch.Generator())


def test_a_graph_draws_from_registered_generators_only(two_gpus: VirtualMachine) -> None:
    generator: Any = torch.Generator("cuda").manual_seed(3)
    unknown = CUDA.CUDAGraph()
    with pytest.raises(RuntimeError, match="not in capture mode"), CUDA.graph(unknown):
        torch.rand(2, device="cuda", generator=generator)
    graph = CUDA.CUDAGraph()
    graph.register_generator_state(generator)
    with CUDA.graph(graph):
        drawn = torch.rand(2, device="cuda", generator=generator)
    assert generator.get_offset() == 0
    graph.replay()
    first = drawn.tolist()
    graph.replay()
    assert generator.get_offset() == 8
    assert first != drawn.tolist()
    generator.set_offset(0)
    graph.replay()
    assert drawn.tolist() == first


def test_a_graph_draws_from_the_states_of_its_capture(two_gpus: VirtualMachine) -> None:
    default: Any = CUDA.default_generators[0].manual_seed(0)
    own, other = default.graphsafe_get_state(), default.clone_state()
    graph: Any = torch.cuda.CUDAGraph()
    graph.register_generator_state(own)
    graph.register_generator_state(other)
    with torch.cuda.graph(graph):
        default.graphsafe_set_state(other)
        from_other = torch.rand(5, device="cuda")
        default.graphsafe_set_state(own)
        from_own = torch.rand(5, device="cuda")
    alone: Any = torch.Generator("cuda").manual_seed(0)
    for _ in range(2):
        graph.replay()
        drawn = torch.rand(5, device="cuda", generator=alone)
        assert torch.equal(from_other, drawn)
        assert torch.equal(from_own, drawn)
    assert (own.get_offset(), other.get_offset()) == (8, 8)


def test_a_state_read_in_a_capture_can_be_set_there(two_gpus: VirtualMachine) -> None:
    torch.rand(3, device="cuda")
    graph = CUDA.CUDAGraph()
    with CUDA.graph(graph):
        state = CUDA.get_rng_state()
        first = torch.rand(5, device="cuda")
        torch.rand(7, device="cuda")
        CUDA.set_rng_state(state)
        again = torch.rand(5, device="cuda")
    drawn = []
    for _ in range(2):
        graph.replay()
        assert first.tolist() == again.tolist()
        drawn.append(first.tolist())
    assert drawn[0] != drawn[1]
    assert CUDA.default_generators[0].get_offset() == 4 + 2 * 4


def test_a_capture_refuses_what_cuda_refuses_of_generators(two_gpus: VirtualMachine) -> None:
    default = CUDA.default_generators[0]
    default.manual_seed(3)
    torch.rand(3, device="cuda")
    before = default.get_state()
    graph = CUDA.CUDAGraph()
    with CUDA.graph(graph):
        for call, name in (
            (default.get_offset, "get_offset"),
            (lambda: default.set_offset(0), "set_offset"),
            (CUDA.seed, "seed"),
            (default.clone_state, "clone_impl"),
            (lambda: torch.Generator("cuda"), "construct"),
        ):
            with pytest.raises(RuntimeError, match=f"{name}.* during CUDA graph capture"):
                call()
        assert default.manual_seed(3).initial_seed() == 3
        with pytest.raises(RuntimeError, match="only if new seed is the same"):
            torch.manual_seed(4)
        with pytest.raises(NotImplementedError, match="state of a generator in a CUDA graph"):
            default.set_state(before)
        torch.rand(3, device="cuda")
    assert default.get_offset() == 4
