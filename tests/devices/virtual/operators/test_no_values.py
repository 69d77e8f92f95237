"""Tensors without values: clear errors for calls that need values, and the calls that do not."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.functional import gaussian_nll_loss

from gpututor.devices.virtual import NoValues, virtual_gpu
from tests.support.virtual_gpus import printed

_X = "torch.rand(4, 4, device='cuda')"
_ASKING: dict[str, tuple[str, str]] = {
    "item": (f"{_X}.sum().item()", r"Tensor\.item\(\)"),
    "float": (f"float({_X}.sum())", r"float\(tensor\)"),
    "int": (f"int({_X}.sum())", r"int\(tensor\)"),
    "bool": (f"bool({_X}.sum() > 0)", r"bool\(tensor\)"),
    "index": (f"range({_X}.sum().long())", "as an index"),
    "format": (f"format({_X}.sum(), '.3f')", r"Tensor\.item\(\)"),
    "tolist": (f"{_X}.tolist()", r"Tensor\.tolist\(\)"),
    "cpu": (f"{_X}.cpu()", r"Tensor\.cpu\(\)"),
    "to": (f"{_X}.to('cpu')", r"Tensor\.to\(\)"),
    "copy to the host": (f"torch.empty(4, 4).copy_({_X})", r"Tensor\.copy_\(\)"),
    "numpy": (f"{_X}.numpy(force=True)", r"Tensor\.cpu\(\)"),
    "nonzero": (f"torch.nonzero({_X})", r"torch\.nonzero\(\)"),
    "masked_select": (f"torch.masked_select({_X}, {_X} > 0)", r"torch\.masked_select\(\)"),
    "mask": (f"{_X}[{_X} > 0]", r"Tensor\.__getitem__\(\)"),
    "unique": (f"torch.unique({_X})", r"torch\.functional\.unique\(\)"),
    "equal": (f"torch.equal({_X}, {_X})", r"torch\.equal\(\)"),
    "allclose": (f"torch.allclose({_X}, {_X})", r"torch\.allclose\(\)"),
    "linspace on the host": (f"torch.linspace({_X}.sum(), 1, 3)", r"torch\.linspace\(\)"),
    "bincount": ("torch.bincount(torch.ones(3, dtype=torch.int64, device='cuda'))", r"torch\.bincount\(\)"),
    "repeat": (f"torch.repeat_interleave({_X}.sum(1).long())", r"torch\.repeat_interleave\(\)"),
    "tensor of scalars": (f"torch.tensor([{_X}.sum(), 1.0])", r"torch\.tensor\(\)"),
    "save": (f"torch.save({_X}, io.BytesIO())", "Saving"),
    "pickle": (f"pickle.dumps({_X})", "pickling"),
    "storage": (f"{_X}.untyped_storage().cpu()", r"UntypedStorage\.cpu\(\)"),
    "storage's element": (f"{_X}.untyped_storage()[0]", "UntypedStorage"),
}


@pytest.mark.parametrize("name", _ASKING)
def test_calls_that_need_values_raise(name: str) -> None:
    source, said = _ASKING[name]
    with virtual_gpu(values=False):
        with pytest.raises(NoValues, match=said + r".* needs values, .*\(values=False\)"):
            eval(source, {"torch": torch, "io": io, "pickle": pickle})
        assert torch.ones(2, device="cuda").sum().shape == ()
    with virtual_gpu():
        assert torch.ones(2, device="cuda").sum().item() == 2


def test_other_calls_that_need_values_are_refused_by_name() -> None:
    with virtual_gpu(values=False):
        values = torch.ones(2, device="cuda", requires_grad=True)
        y = torch.zeros(2, device="cuda").index_put((torch.ones(2, dtype=torch.bool, device="cuda"),), values)
        with pytest.raises(NoValues, match="aten::index needs values"):
            y.sum().backward()
        x = torch.rand(2, device="cuda")
        with pytest.raises(NoValues, match=r"gaussian_nll_loss\(\)"):
            gaussian_nll_loss(x, x, x)
        with pytest.raises(NotImplementedError, match="without values"):
            torch.eye(3, device="cuda").to_sparse()
        with pytest.raises(NotImplementedError, match="sparse tensors without values"):
            torch.eye(3).to_sparse().cuda()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        ("torch.ones(2, 3, device='cuda')", "tensor(..., device='cuda:0', size=(2, 3), no values)"),
        ("torch.ones((), device='cuda')", "tensor(..., device='cuda:0', size=(), no values)"),
        (
            "torch.ones(2, device='cuda', dtype=torch.half)",
            "tensor(..., device='cuda:0', size=(2,), dtype=torch.float16, no values)",
        ),
        (
            "torch.ones(2, device='cuda', requires_grad=True) * 2",
            "tensor(..., device='cuda:0', size=(2,), no values, grad_fn=<MulBackward0>)",
        ),
    ],
)
def test_printing_shows_the_shape_and_that_there_are_no_values(make: str, text: str) -> None:
    with virtual_gpu(values=False):
        tensor = eval(make, {"torch": torch})
        assert " ".join(repr(tensor).split()) == text
        assert " ".join(f"{tensor}".split()) == text


def test_tensors_of_the_host_and_of_meta_stay_as_they_are() -> None:
    with virtual_gpu(values=False):
        assert torch.arange(3.0).sum().item() == 3
        x = torch.ones(2, device="cuda")
        assert torch.zeros_like(x, device="cpu").tolist() == [0, 0]
        assert x.is_cuda
        assert not x.is_meta
        assert (x + 1).data_ptr() != x.data_ptr()
        assert x[1:].data_ptr() == x.data_ptr() + 4
        meta = torch.ones(2, device="meta")
        assert meta.device == torch.device("meta")
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            meta.cuda()
        with pytest.raises(RuntimeError, match="on the same device"):
            meta @ torch.ones(2, device="cuda")


def test_devices_are_compared_as_with_values() -> None:
    with virtual_gpu(2, values=False):
        x = torch.ones(2, 2, device="cuda:1")
        with pytest.raises(RuntimeError, match="found at least two devices, cuda:1 and cpu"):
            x + torch.ones(2, 2)
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
            x @ torch.ones(3, 2, device="cuda:1")


def test_a_file_is_loaded_onto_the_device() -> None:
    file = io.BytesIO()
    weight = torch.ones(4, 4)
    torch.save({"weight": weight, "row": weight[0]}, file)
    file.seek(0)
    with virtual_gpu(values=False):
        state = torch.load(file, map_location="cuda")
        assert state["weight"].shape == (4, 4)
        assert torch.cuda.memory_allocated() == 512
        assert (state["weight"] + state["row"]).device == torch.device("cuda:0")
        assert state["row"].data_ptr() == state["weight"].data_ptr()


def test_tensors_may_be_larger_than_host_memory() -> None:
    with virtual_gpu(model="B200", values=False):
        large = torch.ones(160 << 30, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_allocated() == 160 << 30
        with pytest.raises(torch.OutOfMemoryError):
            large + large


_CONSTANTS = {
    "linspace": "[x.item() for x in torch.linspace(0, 0.5, 3, device='cuda')]",
    "arange": "torch.arange(5, device='cuda')[1:].sum().item()",
    "full": "float(torch.full((2,), 2.5, device='cuda')[1])",
    "like another": "torch.ones_like(torch.rand(3, device='cuda')).sum().item()",
    "tensor": "torch.tensor([[1, 2], [3, 4]], device='cuda').T.contiguous()[0, 1].item()",
    "moved": "int(torch.tensor(7).cuda().double() * 2)",
    "computed": "bool(torch.eye(3, device='cuda').mm(torch.ones(3, 1, device='cuda')).gt(0).all())",
    "copied back": "torch.linspace(0, 1, 3, device='cuda').cpu().tolist()",
    "written in place": "torch.zeros(3, device='cuda').add_(1).mul_(torch.arange(3, device='cuda'))[2].item()",
    "index": "[0, 1, 2][torch.ones((), dtype=torch.int64, device='cuda')]",
}


@pytest.mark.parametrize("name", _CONSTANTS)
def test_numbers_that_follow_from_constants_are_known(name: str) -> None:
    with virtual_gpu():
        expected = eval(_CONSTANTS[name], {"torch": torch})
    with virtual_gpu(values=False):
        assert eval(_CONSTANTS[name], {"torch": torch}) == expected


def test_views_of_a_constant_see_what_is_written() -> None:
    with virtual_gpu(values=False):
        x = torch.zeros(2, 3, device="cuda")
        row = x[1]
        row[0] = 5
        x[:, 2].copy_(torch.tensor([1.0, 2.0]))
        row.neg_()
        assert [x[place].item() for place in ((0, 2), (1, 0), (1, 2))] == [1, -5, -2]


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.add_(y),
        lambda x, y: x[1:].copy_(y[1:]),
        lambda x, y: x.detach().view(2, 2).mul_(y.view(2, 2)),
        lambda x, y: x.copy_(y),
        lambda x, y: x.normal_(),
        lambda x, y: torch.add(y, 1, out=x),
        lambda x, y: torch._foreach_add_([x], [y]),
        lambda x, y: x.conj().mul_(y),
        lambda x, y: x.untyped_storage().resize_(0),
    ],
)
def test_a_constant_is_forgotten_when_something_unknown_is_written(write: Callable[..., object]) -> None:
    with virtual_gpu(values=False):
        x, y = torch.zeros(4, dtype=torch.complex64, device="cuda"), torch.rand(4, device="cuda").to(torch.complex64)
        assert x[0].item() == 0
        write(x, y)
        with pytest.raises((NoValues, RuntimeError)):
            x[3].item()


def test_random_large_and_captured_numbers_are_unknown() -> None:
    with virtual_gpu(values=False):
        for unknown in (
            torch.zeros(1 << 20, device="cuda"),
            torch.rand(3, device="cuda"),
            torch.empty(3, device="cuda"),
        ):
            with pytest.raises(NoValues):
                unknown[0].item()
        with pytest.raises(NoValues):
            (torch.ones(1, device="cuda") + torch.rand(1, device="cuda")).item()
        graph, x = torch.cuda.CUDAGraph(), torch.zeros(2, device="cuda")
        with torch.cuda.graph(graph):
            x.add_(1)
            y = torch.ones(2, device="cuda")
        for tensor in (x, y):
            with pytest.raises(NoValues):
                tensor[0].item()


def test_a_later_session_has_values() -> None:
    with virtual_gpu(values=False):
        left = torch.ones(2, device="cuda")
    assert "no values" in repr(left)
    with virtual_gpu():
        with pytest.raises(RuntimeError, match="switched off"):
            left + 1
        assert (torch.ones(2, device="cuda") + 1).tolist() == [2, 2]


@pytest.mark.long
def test_the_command_line_option_applies_to_child_processes(tmp_path: Path) -> None:
    script = tmp_path / "sizes.py"
    script.write_text(
        "import subprocess, sys, torch\n"
        "x = torch.ones(1 << 34, device='cuda')\n"
        "print(torch.cuda.max_memory_allocated() >> 30, 'no values' in repr(x), flush=True)\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    )
    command = ["-m", "gpututor.devices.virtual", "--model", "B200", "--no-values", str(script)]
    assert printed(*command).splitlines() == ["64 True", "64 True"]


def test_a_collective_is_refused_by_name(tmp_path: Path) -> None:
    with virtual_gpu(values=False):
        torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
        try:
            with pytest.raises(NotImplementedError, match=r"c10d::allreduce_ without values.*Run a single process"):
                torch.distributed.all_reduce(torch.ones(2, device="cuda"))
        finally:
            torch.distributed.destroy_process_group()
