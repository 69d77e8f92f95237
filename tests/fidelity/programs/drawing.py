"""Random numbers: whose generator, which seed, and that a state can be kept."""

from __future__ import annotations

from typing import Any

import torch

from tests.fidelity.program import gives, raises

RANDOM_PY = "torch/cuda/random.py"
GENERATOR = "aten/src/ATen/core/Generator.h"


def drawn(device: str = "cuda") -> torch.Tensor:
    return torch.rand(8, device=device)


@gives((True, 2, 2), source="test/test_cuda.py: test_torch_manual_seed_seeds_cuda_devices")
def manual_seed_seeds_the_gpus_too() -> Any:
    torch.manual_seed(2)
    x, seed = drawn(), torch.cuda.initial_seed()
    torch.manual_seed(2)
    return torch.equal(x, drawn()), seed, torch.cuda.initial_seed()


@gives((True, True), source="test/test_cuda.py: test_manual_seed")
def cuda_manual_seed_repeats_what_the_gpu_draws() -> Any:
    half = torch.full((8,), 0.5, device="cuda")
    torch.cuda.manual_seed(2)
    x, a = drawn(), torch.bernoulli(half)
    torch.cuda.manual_seed(2)
    return torch.equal(x, drawn()), torch.equal(a, torch.bernoulli(half))


@gives((True, False), source=RANDOM_PY)
def manual_seed_is_for_the_current_gpu_and_manual_seed_all_for_each() -> Any:
    torch.cuda.manual_seed_all(5)
    x, y = drawn("cuda:0"), drawn("cuda:1")
    torch.cuda.manual_seed_all(6)
    torch.cuda.manual_seed(5)
    return torch.equal(x, drawn("cuda:0")), torch.equal(y, drawn("cuda:1"))


@gives(True, source="docs/source/notes/randomness.rst")
def drawing_on_the_gpu_leaves_the_cpus_generator_alone() -> Any:
    torch.manual_seed(1)
    x = torch.rand(4)
    torch.manual_seed(1)
    drawn()
    torch.randperm(10, device="cuda")
    return torch.equal(x, torch.rand(4))


@gives((True, "cpu", "uint8"), source="aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: get_state")
def a_state_is_bytes_on_the_cpu_and_can_be_set() -> Any:
    state = torch.cuda.get_rng_state()
    x = drawn()
    torch.cuda.set_rng_state(state)
    return torch.equal(x, drawn()), state.device, state.dtype


@gives((True, 2), source=RANDOM_PY)
def the_states_of_all_gpus_are_a_list() -> Any:
    states = torch.cuda.get_rng_state_all()
    x = drawn("cuda:1")
    torch.cuda.set_rng_state_all(states)
    return torch.equal(x, drawn("cuda:1")), min(2, len(states))


@gives(True, source="torch/random.py: fork_rng")
def fork_rng_gives_the_gpus_their_states_back() -> Any:
    torch.manual_seed(4)
    x = drawn()
    torch.manual_seed(4)
    with torch.random.fork_rng(devices=[0]):
        drawn()
    return torch.equal(x, drawn())


@gives((True, "cuda", 9), source="docs/source/generator.rst")
def a_generator_of_ones_own() -> Any:
    g = torch.Generator("cuda").manual_seed(9)
    x = torch.rand(4, device="cuda", generator=g)
    g.manual_seed(9)
    return torch.equal(x, torch.rand(4, device="cuda", generator=g)), g.device.type, g.initial_seed()


@raises(RuntimeError, "Expected a 'cuda' device type for generator but found 'cpu'", source=GENERATOR)
def a_cpu_generator_for_a_gpu_tensor() -> Any:
    return torch.rand(2, device="cuda", generator=torch.Generator())


@raises(RuntimeError, "Expected a 'cpu' device type for generator but found 'cuda'", source=GENERATOR)
def a_gpu_generator_for_a_cpu_tensor() -> Any:
    return torch.rand(2, generator=torch.Generator("cuda"))


@gives((True, True), source="torch/nn/functional.py: dropout")
def dropout_repeats_with_the_gpus_seed() -> Any:
    x = torch.ones(64, device="cuda")
    torch.cuda.manual_seed(3)
    a = torch.nn.functional.dropout(x)
    torch.cuda.manual_seed(3)
    b = torch.nn.functional.dropout(x)
    return torch.equal(a, b), sorted(a.unique().tolist()) == [0.0, 2.0]


@gives((True, "cuda:0"), source="torch/_torch_docs.py: randperm")
def a_permutation_holds_each_number_once() -> Any:
    p = torch.randperm(20, device="cuda")
    return p.sort().values.tolist() == list(range(20)), p.device


@gives(67280421310721, source="c10/core/GeneratorImpl.h: default_rng_seed_val")
def a_new_generator_has_the_default_seed() -> Any:
    return torch.Generator("cuda").initial_seed()
