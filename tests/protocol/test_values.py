"""Values across the process border: trees, keys, tensors and their facts."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpututor.protocol.decode import Decoder, facts_by_path, to_tensor
from gpututor.protocol.encode import Encoder
from gpututor.protocol.values import (
    DTYPES,
    MAX_KEY,
    ObservedArray,
    ObservedModule,
    ObservedObject,
    ObservedTensor,
    ValueRefused,
)


def carried(value: object) -> Any:
    packer = Encoder()
    node = json.loads(json.dumps(packer.pack(value), allow_nan=False))
    return Decoder(tuple(packer.buffers)).unpack(node)


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)


trees = st.recursive(
    leaves,
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.tuples(parts, parts)
        | st.dictionaries(st.text(max_size=5) | st.integers(-(1 << 60), 1 << 60), parts, max_size=3)
    ),
    max_leaves=15,
)


@given(trees)
def test_plain_trees_survive_a_round_trip(tree: Any) -> None:
    assert carried(tree) == tree


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 1, 5)], ids=str)
def test_tensors_of_every_dtype_and_shape_arrive_bit_for_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.arange(math.prod(shape)).reshape(shape).to(dtype)

    arrived = carried(tensor)

    assert isinstance(arrived, ObservedTensor)
    assert arrived.values.dtype == dtype
    assert torch.equal(arrived.values, tensor)


def test_views_keep_their_strides_and_share_one_storage() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    whole, again, turned, apart = carried([base, base, base.t(), base.clone()])

    assert turned.fact.strides == (1, 4)
    assert torch.equal(turned.values, base.t())
    assert whole.fact.storage == turned.fact.storage != apart.fact.storage
    assert whole.fact.identity == again.fact.identity != turned.fact.identity


def never(*arguments: object, **named: object) -> Any:
    raise AssertionError("a value's own code ran")


class LazyList(list[Any]):
    __iter__ = __len__ = __getitem__ = never


class LazyTuple(tuple[Any, ...]):
    __iter__ = __len__ = __getitem__ = never


class LazyDict(dict[str, Any]):
    __iter__ = __getitem__ = items = keys = values = never


class LazyModule(torch.nn.Linear):
    named_parameters = named_buffers = named_modules = parameters = state_dict = never


@pytest.mark.parametrize(
    ("value", "plain"), [(LazyList([1, 2]), [1, 2]), (LazyTuple((1, 2)), (1, 2)), (LazyDict(a=1), {"a": 1})]
)
def test_reading_a_container_runs_no_code_of_it(value: object, plain: object) -> None:
    assert carried(value) == plain


def test_reading_a_module_runs_no_code_of_it() -> None:
    module, plain = LazyModule(2, 1), torch.nn.Linear(2, 1)
    torch.nn.Module.load_state_dict(plain, {"weight": module.weight, "bias": module.bias})

    arrived, expected = carried(torch.nn.Sequential(module)), carried(torch.nn.Sequential(plain))

    assert arrived.parameters.keys() == expected.parameters.keys() == {"0.weight", "0.bias"}
    assert torch.equal(arrived.parameters["0.weight"].values, expected.parameters["0.weight"].values)


@pytest.mark.parametrize("name", ["detach", "stride", "numel", "storage_offset", "element_size"])
def test_a_tensor_with_its_own_methods_is_refused(name: str) -> None:
    tensor = torch.ones(2)
    tensor.note = "an unrelated attribute"  # type: ignore[attr-defined]
    carried(tensor)
    setattr(tensor, name, never)

    with pytest.raises(ValueRefused, match=f"a tensor whose {name} was replaced"):
        carried(tensor)


def test_an_imitation_of_an_array_becomes_text() -> None:
    fake = type("ndarray", (), {"__module__": "numpy", "astype": never, "dtype": np.dtype("float32"), "nbytes": 4})

    assert isinstance(carried(fake()), ObservedObject)


def test_modules_arrive_with_all_state_also_of_a_shared_layer() -> None:
    module = torch.nn.BatchNorm1d(3)
    module(torch.randn(4, 3)).sum().backward()

    arrived = carried(module)

    assert isinstance(arrived, ObservedModule)
    assert set(arrived.parameters) == {"weight", "bias"}
    assert set(arrived.buffers) == {"running_mean", "running_var", "num_batches_tracked"}
    assert arrived.parameters["weight"].fact.type_name == "Parameter"
    gradient = arrived.parameters["bias"].grad
    assert gradient is not None
    assert gradient.values.shape == (3,)
    layer = torch.nn.Linear(2, 2)
    shared = carried(torch.nn.Sequential(layer, torch.nn.ReLU(), layer))

    assert shared.layers[1:] == (("1", "ReLU", ""), ("2", "Linear", "in_features=2, out_features=2, bias=True"))
    assert shared.parameters.keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert shared.parameters["0.weight"] is shared.parameters["2.weight"]


@pytest.mark.parametrize("program", [lambda model: torch.jit.trace(model, torch.ones(2, 3)), torch.jit.script])
def test_torchscript_programs_arrive_with_all_state(program: Any) -> None:
    layer = torch.nn.Linear(3, 3)

    arrived = carried(program(torch.nn.Sequential(layer, torch.nn.BatchNorm1d(3)).eval()))

    assert isinstance(arrived, ObservedModule)
    assert arrived.parameters["0.weight"].values.equal(layer.weight)
    assert set(arrived.buffers) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_devices_dtypes_sizes_and_arrays_survive_a_round_trip() -> None:
    device, dtype, size, array = carried([torch.device("cuda", 1), torch.float16, torch.Size([2]), np.arange(3.0)])

    assert (device, dtype, size) == (torch.device("cuda:1"), torch.float16, torch.Size([2]))
    assert isinstance(array, ObservedArray)
    assert array.values.tolist() == [0.0, 1.0, 2.0]


def test_numpy_scalars_that_are_floats_and_texts_arrive_as_such() -> None:
    figures = carried({np.str_("mm"): [np.float64(0.5), np.float64("nan"), np.float32(0.5)]})["mm"]

    assert [type(figure) for figure in figures] == [float, float, ObservedObject]
    assert figures[0] == 0.5


def test_other_objects_become_a_name_and_bounded_text() -> None:
    class Talkative:
        def __repr__(self) -> str:
            return "x" * 10_000

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    talkative, broken = carried([Talkative(), Broken()])

    assert isinstance(talkative, ObservedObject)
    assert len(talkative.text) == 2000
    assert "RuntimeError" in broken.text


class LazyTensor(torch.Tensor):
    pass


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)
HOLDS_ITSELF = torch.nn.Sequential(torch.nn.ReLU())
HOLDS_ITSELF.add_module("itself", HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (HOLDS_ITSELF, "nested too deeply"),
        (ENDLESS, "nested too deeply"),
        (torch.ones(2).as_subclass(LazyTensor), "Lazy"),
    ],
    ids=["module", "list", "subclass"],
)
def test_endless_values_and_subclasses_are_refused(value: object, words: str) -> None:
    with pytest.raises(ValueRefused, match=words):
        carried(value)


def test_facts_name_tensors_by_path() -> None:
    packer = Encoder()
    facts = facts_by_path(packer.facts({"x": torch.ones(1), "batch": [torch.ones(2), {"mask": torch.ones(3)}]}))

    assert {path: fact.shape for path, fact in facts.items()} == {"x": (1,), "batch.0": (2,), "batch.1.mask": (3,)}


def test_drawn_values_become_ordinary_tensors() -> None:
    drawn = {"x": torch.ones(2, requires_grad=True), "sizes": [1, 2]}

    made = to_tensor(carried(drawn))

    assert made["sizes"] == [1, 2]
    assert made["x"].requires_grad
    assert type(made["x"]) is torch.Tensor


KINDS = (
    *("plain", "int", "float", "list", "tuple", "dict", "tensor"),
    *("module", "array", "device", "dtype", "size", "odd"),
)
FIELDS = ["v", "type", "fact", "buffer", "grad", "shape", "storage", "parameters", "buffers", "training"]
parts = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries({"k": st.sampled_from(KINDS)}, optional=dict.fromkeys(FIELDS, inner))
    ),
    max_leaves=10,
)


@given(parts)
def test_forged_nodes_raise_only_refusals(node: Any) -> None:
    with contextlib.suppress(ValueRefused):
        Decoder((b"abcd",)).unpack(node)


def test_a_buffer_of_the_wrong_size_is_refused() -> None:
    packer = Encoder()
    node = packer.pack(torch.ones(4))
    node["fact"] = {**node["fact"], "shape": [1 << 40]}

    with pytest.raises(ValueRefused, match="do not fit"):
        Decoder(tuple(packer.buffers)).unpack(node)


@pytest.mark.parametrize(
    ("node", "buffers"),
    [
        (Encoder().pack(torch.ones(4)), ()),
        ({"k": "dtype", "v": "torch.nn"}, ()),
        ({"k": "array", "shape": [2], "dtype": "bfloat16", "storage": "1", "buffer": 0}, (bytes(4),)),
    ],
    ids=["no buffer", "no dtype", "a dtype that NumPy does not have"],
)
def test_other_impossible_nodes_are_refused(node: dict[str, Any], buffers: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueRefused):
        Decoder(buffers).unpack(node)


class Key(list[Any]):
    __hash__ = object.__hash__  # type: ignore[assignment]


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def unpacked(packer: Encoder, node: dict[str, Any]) -> Any:
    return Decoder(tuple(packer.buffers)).unpack(node)


X = torch.arange(3.0)


KEYS = {
    "a tensor": X,
    "a parameter": torch.nn.Parameter(X),
    "a tuple with a tensor": (1, X),
    "a list with a tensor": Key([X]),
    "a list with a list with a tensor": Key([[X]]),
    "a list with a dict": Key([{"a": X}]),
    "a module": torch.nn.Linear(1, 1),
    "a list with an array": Key([np.zeros(2)]),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_tensors_in_keys_are_refused_on_both_sides(key: object) -> None:
    with pytest.raises(ValueRefused, match=r"a dict whose keys hold (tensors|modules|arrays): use names or numbers"):
        Encoder().pack({"a": {key: 1}})
    packer = Encoder()
    node = {"k": "dict", "v": [[packer.pack(key), packer.pack(1)]]}
    with pytest.raises(ValueRefused, match="keys hold tensors"):
        unpacked(packer, node)


def test_a_repeated_tensor_is_refused_in_a_key() -> None:
    packer = Encoder()
    first, again = packer.pack(X), packer.pack(X)
    key = {"k": "list", "v": [again]}

    with pytest.raises(ValueRefused, match="keys hold tensors"):
        unpacked(packer, {"k": "list", "v": [first, {"k": "dict", "v": [[key, packer.pack(1)]]}]})


def test_values_below_keys_may_hold_tensors_and_other_keys_become_text() -> None:
    received = carried({("a", 1): X, Key(["b"]): [X]})

    assert list(received) == [("a", 1), "['b']"]
    first, second = carried({Named("x" * 1000): 1, Named("x" * 1000 + "y"): 2})

    assert len(first) == MAX_KEY
    assert second == f"{first} (1)"


def test_the_repr_of_a_received_value_omits_tensor_contents() -> None:
    model = torch.nn.Linear(2, 2)
    model(X[:2]).sum().backward()
    printed = [repr(carried(value)) for value in (X, model, np.arange(5.0), [X, {"a": model.weight}])]

    assert not any("tensor(" in text or "array(" in text for text in printed)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float8_e4m3fn, torch.complex32, torch.quint8], ids=str)
def test_dtypes_without_supported_tensors_survive_a_round_trip(dtype: torch.dtype) -> None:
    assert carried({"dtype": dtype}) == {"dtype": dtype}
