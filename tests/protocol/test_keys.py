"""Keys of dicts: what may be one, how it is known, and that printing what arrived never prints values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.values import MAX_KEY, ValueRefused


class Key(list[Any]):
    __hash__ = object.__hash__  # type: ignore[assignment]


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def carried(value: object) -> Any:
    packer = Encoder()
    return unpacked(packer, packer.pack(value))


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
def test_tensors_in_keys_are_refused_in_words_where_they_are_sent(key: object) -> None:
    with pytest.raises(ValueRefused, match=r"a dict whose keys hold (tensors|modules|arrays): use names or numbers"):
        Encoder().pack({"a": {key: 1}})


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_and_where_they_arrive(key: object) -> None:
    packer = Encoder()
    node = {"k": "dict", "v": [[packer.pack(key), packer.pack(1)]]}

    with pytest.raises(ValueRefused, match="keys hold tensors"):
        unpacked(packer, node)


def test_a_tensor_met_before_is_refused_in_a_key_too() -> None:
    packer = Encoder()
    first, again = packer.pack(X), packer.pack(X)
    key = {"k": "list", "v": [again]}

    with pytest.raises(ValueRefused, match="keys hold tensors"):
        unpacked(packer, {"k": "list", "v": [first, {"k": "dict", "v": [[key, packer.pack(1)]]}]})


def test_values_below_a_key_may_hold_tensors() -> None:
    found = carried({("a", 1): X, Key(["b"]): [X]})

    assert list(found) == [("a", 1), "['b']"]


def test_a_key_that_is_an_object_is_known_by_the_beginning_of_its_text() -> None:
    found = carried({Named("x" * 1000): 1, Named("x" * 1000 + "y"): 2})

    first, second = found
    assert len(first) == MAX_KEY
    assert second == f"{first} (1)"


def test_what_arrived_is_printed_without_its_values() -> None:
    model = torch.nn.Linear(2, 2)
    model(X[:2]).sum().backward()
    printed = [repr(carried(value)) for value in (X, model, np.arange(5.0), [X, {"a": model.weight}])]

    assert not any("tensor(" in text or "array(" in text for text in printed)


@pytest.mark.parametrize("name", ["uint16", "float8_e4m3fn", "complex32", "quint8"])
def test_a_dtype_is_a_name_and_travels_though_its_tensors_do_not(name: str) -> None:
    dtype = getattr(torch, name)

    assert carried({"dtype": dtype}) == {"dtype": dtype}


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ValueRefused):
        Decoder(()).unpack({"k": "dtype", "v": "torch.nn"})


def test_an_array_of_a_dtype_that_arrays_lack_is_refused() -> None:
    node = {"k": "array", "shape": [2], "dtype": "bfloat16", "storage": "1", "buffer": 0}

    with pytest.raises(ValueRefused):
        Decoder((bytes(4),)).unpack(node)
