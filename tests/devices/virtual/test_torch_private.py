"""Supported torch versions: a single declaration, and clear errors outside the range."""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path

import pytest
import torch

from gpututor.devices.virtual import options, torch_private, virtual_gpu
from gpututor.devices.virtual.patches.patch import Patch
from gpututor.hardware.packages import TORCH, TORCH_REQUIREMENT
from tests.support import ROOT


@pytest.mark.parametrize("version", ["2.8.0", "1.13.1+cu117", "2.99.0", "3.0.0a0+git123", "2.100"])
def test_an_untested_torch_warns_on_entering(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    words = f"tested with torch {TORCH.versions}, but this is torch {version}"
    with pytest.warns(options.UntestedTorch, match=words.replace("+", r"\+")) as caught, virtual_gpu(1):
        pass
    assert caught[0].filename == __file__


@pytest.mark.parametrize("version", [TORCH.oldest, TORCH.newest + ".1+cu130", "2.10.0a0"])
def test_tested_versions_give_no_warning(version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options.warn_if_untested(version)
        with virtual_gpu(1):
            pass


@pytest.mark.parametrize(
    ("look_up", "name"),
    [
        (lambda: torch._C._no_such_function, "torch._C._no_such_function"),  # type: ignore[attr-defined]
        (lambda: torch.Tensor._no_such_method, "torch.Tensor._no_such_method"),  # type: ignore[attr-defined]
        (lambda: Patch("torch.cuda.no_such_module", "f", None, "").owner_object(), "torch.cuda.no_such_module"),
    ],
)
def test_a_missing_private_name_is_named_in_the_error(look_up: object, name: str) -> None:
    assert callable(look_up)
    with pytest.raises(options.TorchNotSupported) as caught, options.explain_missing_names():
        look_up()
    assert f"torch {torch.__version__} has no {name}, which the virtual GPU needs." in str(caught.value)
    assert "install one of these versions" in str(caught.value)


def test_a_missing_module_is_named_and_other_errors_are_unchanged() -> None:
    with pytest.raises(options.TorchNotSupported, match="_no_such_name"), options.explain_missing_names():
        from torch._utils import _no_such_name  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError), options.explain_missing_names():
        Path("x").no_such_name  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ModuleNotFoundError), options.explain_missing_names():
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401


def test_pyproject_code_and_docs_declare_the_same_torch_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert TORCH_REQUIREMENT in project["project"]["dependencies"]
    lower, upper = TORCH_REQUIREMENT.removeprefix("torch>=").split(",<")
    assert lower == TORCH.oldest
    assert not TORCH.works_in(upper)
    for page in ("README.md", "docs/classroom/github.md"):
        assert f"pip install '{TORCH_REQUIREMENT}' --index-url" in (ROOT / page).read_text(encoding="utf-8")
    assert f"a torch older than {upper}:" in (ROOT / "docs/virtual-gpu.md").read_text(encoding="utf-8")
    assert torch_private.CHECKED_ON[0].startswith(TORCH.oldest + ".")
    assert torch_private.CHECKED_ON[-1].startswith(TORCH.newest + ".")


def test_a_replacement_keeps_the_wrapped_attribute() -> None:
    below = torch.get_device_module.__wrapped__
    with virtual_gpu(1):
        assert torch.get_device_module.__wrapped__ is below
