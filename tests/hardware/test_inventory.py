"""The inventory of devices: probed in a child process and cached until the machine changes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.hardware import inventory
from gpututor.hardware.inventory import Device, load_inventory

GPU = {"name": "cuda:0", "kind": "cuda", "description": "Tesla T4", "memory_bytes": 15 * 2**30}
CPU = {"name": "cpu", "kind": "cpu", "description": "x86", "memory_bytes": None}


class Probe:
    """A substitute for the child process, which counts its starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._script = folder / "probe.py"
        self._log = folder / "starts"
        monkeypatch.setattr(inventory, "PROBE", [sys.executable, str(self._script)])
        self.answers([CPU, GPU])

    def answers(self, devices: object, *, before: str = "") -> None:
        answer = json.dumps({"torch": "2.13.0", "devices": devices})
        self.does(f"print({before!r} + {answer!r})")

    def does(self, code: str) -> None:
        self._script.write_text(f"open({str(self._log)!r}, 'a').write('x')\n{code}\n")

    @property
    def starts(self) -> int:
        return len(self._log.read_text()) if self._log.exists() else 0


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    monkeypatch.setattr(inventory, "torch_version", lambda: "2.13.0")
    return Probe(tmp_path, monkeypatch)


def test_the_inventory_is_cached(probe: Probe) -> None:
    first = load_inventory()
    assert first.devices == (Device("cpu", "cpu", "x86"), Device("cuda:0", "cuda", "Tesla T4", 15 * 2**30))
    assert first.accelerators == first.devices[1:]
    assert load_inventory() == first
    assert probe.starts == 1


def test_a_refresh_or_a_changed_machine_probes_again(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    (tmp_path / "nvidia0").touch()
    load_inventory()
    probe.answers([CPU], before="hello from a driver\n")
    assert len(load_inventory(refresh=True).devices) == 1
    changes: list[Callable[[], None]] = [
        lambda: monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1"),
        lambda: monkeypatch.setattr(inventory, "torch_version", lambda: "2.14.0"),
        lambda: monkeypatch.setattr(sys, "executable", str(python)),
        lambda: monkeypatch.setattr(inventory, "_DRIVER_FILES", ((str(tmp_path), "nvidia[0-9]*"),)),
    ]
    for starts, change in enumerate(changes, 3):
        change()
        load_inventory()
        load_inventory()
        assert probe.starts == starts


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"circumstances": 1}', b"[" * 20_000])
def test_a_damaged_cache_is_replaced(probe: Probe, content: bytes) -> None:
    load_inventory()
    paths.devices_cache_file().write_bytes(content)
    assert len(load_inventory().devices) == 2
    assert probe.starts == 2


@pytest.mark.parametrize(
    "devices", [3, [3], [{}], [{**GPU, "name": 3}], [{**GPU, "memory_bytes": "much"}], [{**GPU, "colour": "green"}]]
)
def test_a_cache_with_invalid_devices_is_replaced(probe: Probe, devices: object) -> None:
    load_inventory()
    kept = json.loads(paths.devices_cache_file().read_text())
    kept["inventory"]["devices"] = devices
    paths.devices_cache_file().write_text(json.dumps(kept))
    assert len(load_inventory().devices) == 2
    assert probe.starts == 2


def test_an_unwritable_cache_is_ignored(probe: Probe) -> None:
    paths.cache_folder().parent.mkdir(exist_ok=True)
    paths.cache_folder().write_text("in the way")
    assert len(load_inventory().devices) == 2
    assert len(load_inventory().devices) == 2
    assert probe.starts == 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit('ImportError: no libcudart.so')", "list its devices: ImportError: no lib"),
        ("import os; os._exit(3)", "could not list its devices: it ended with 3"),
        ("print('nonsense')", "could not list its devices: it ended with 0"),
    ],
)
def test_a_failed_probe_is_reported_and_not_cached(probe: Probe, code: str, words: str) -> None:
    probe.does(code)
    failed = load_inventory()
    assert words in failed.error
    assert (failed.torch, failed.devices) == ("2.13.0", ())
    probe.answers([CPU])
    assert load_inventory().error == ""


def test_a_hanging_probe_is_ended_with_its_children(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grandchild = tmp_path / "grandchild"
    probe.does(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"open({str(grandchild)!r}, 'w').write(str(child.pid))\nchild.wait()"
    )
    monkeypatch.setattr(inventory, "PROBE_TIMEOUT_S", 1.5)
    assert "did not list its devices within 1.5 s" in load_inventory().error
    state = subprocess.run(["ps", "-o", "stat=", "-p", grandchild.read_text()], capture_output=True, text=True)
    assert state.stdout.strip()[:1] in ("", "Z")


def test_a_missing_pytorch_has_advice_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "torch_version", lambda: "")
    failed = load_inventory()
    assert (failed.torch, failed.devices) == ("", ())
    assert "pip install 'torch>=" in failed.error


def test_the_version_names_the_build_even_if_the_distribution_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version.py").write_text("__all__ = ['__version__']\n__version__ = '2.13.0+cu130'\ndebug = False\n")
    spec = ModuleSpec("torch", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("importlib.util.find_spec", {"torch": spec}.get)
    assert inventory.torch_version() == "2.13.0+cu130"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert inventory.torch_version() == ""


def test_the_real_probe_lists_the_cpu() -> None:
    loaded = load_inventory()
    assert loaded.error == ""
    assert loaded.torch == inventory.torch_version()
    assert loaded.devices[0].name == "cpu"
