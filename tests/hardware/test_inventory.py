"""The devices are asked for once, in a child process, and again when something changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.hardware import inventory
from gpututor.hardware.inventory import Device, load_inventory

GPU = {"name": "cuda:0", "kind": "cuda", "description": "Tesla T4", "memory_bytes": 15 * 2**30}
CPU = {"name": "cpu", "kind": "cpu", "description": "x86", "memory_bytes": None}


class Probe:
    """Stands in for the child: prints what it is told to, and counts how often it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._script = folder / "probe.py"
        self._asked = folder / "asked"
        monkeypatch.setattr(inventory, "PROBE", [sys.executable, str(self._script)])
        self.answers([CPU, GPU])

    def answers(self, devices: object, *, before: str = "") -> None:
        answer = json.dumps({"torch": "2.13.0", "devices": devices})
        self.does(f"print({before!r} + {answer!r})")

    def does(self, code: str) -> None:
        self._script.write_text(f"open({str(self._asked)!r}, 'a').write('x')\n{code}\n")

    @property
    def times_asked(self) -> int:
        return len(self._asked.read_text()) if self._asked.exists() else 0


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    monkeypatch.setattr(inventory, "torch_version", lambda: "2.13.0")
    return Probe(tmp_path, monkeypatch)


def test_devices_are_asked_for_once(probe: Probe) -> None:
    first = load_inventory()
    assert first.devices == (Device("cpu", "cpu", "x86"), Device("cuda:0", "cuda", "Tesla T4", 15 * 2**30))
    assert first.accelerators == first.devices[1:]
    assert load_inventory() == first
    assert probe.times_asked == 1


def test_devices_are_asked_for_again_on_demand_and_after_a_change(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load_inventory()
    probe.answers([CPU])
    assert len(load_inventory(refresh=True).devices) == 1
    assert probe.times_asked == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    load_inventory()
    assert probe.times_asked == 3
    monkeypatch.setattr(inventory, "torch_version", lambda: "2.14.0")
    load_inventory()
    assert probe.times_asked == 4
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    load_inventory()
    assert probe.times_asked == 5
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(inventory, "_DRIVER_FILES", ((str(tmp_path), "nvidia[0-9]*"),))
    load_inventory()
    assert probe.times_asked == 6
    load_inventory()
    assert probe.times_asked == 6


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"circumstances": 1}', b"[" * 20_000])
def test_a_damaged_cache_is_asked_past(probe: Probe, content: bytes) -> None:
    load_inventory()
    paths.devices_cache_file().write_bytes(content)
    assert len(load_inventory().devices) == 2
    assert probe.times_asked == 2


@pytest.mark.parametrize(
    "devices", [3, [3], [{}], [{**GPU, "name": 3}], [{**GPU, "memory_bytes": "much"}], [{**GPU, "colour": "green"}]]
)
def test_a_cache_with_other_things_in_it_is_asked_past(probe: Probe, devices: object) -> None:
    load_inventory()
    kept = json.loads(paths.devices_cache_file().read_text())
    kept["inventory"]["devices"] = devices
    paths.devices_cache_file().write_text(json.dumps(kept))
    assert len(load_inventory().devices) == 2
    assert probe.times_asked == 2


def test_a_cache_that_cannot_be_written_costs_only_time(probe: Probe) -> None:
    paths.cache_folder().parent.mkdir(exist_ok=True)
    paths.cache_folder().write_text("in the way")
    assert len(load_inventory().devices) == 2
    assert len(load_inventory().devices) == 2
    assert probe.times_asked == 2


def test_what_drivers_print_before_the_answer_is_passed_over(probe: Probe) -> None:
    probe.answers([CPU], before="hello from a driver\n")
    assert len(load_inventory().devices) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import sys; sys.exit('ImportError: no libcudart.so')",
            "tell its devices: ImportError: no lib",
        ),
        ("import os; os._exit(3)", "could not tell its devices: it ended with 3"),
        ("print('nonsense')", "could not tell its devices: it ended with 0"),
    ],
)
def test_a_probe_that_fails_is_told_in_words_and_not_kept(probe: Probe, code: str, words: str) -> None:
    probe.does(code)
    found = load_inventory()
    assert words in found.error
    assert (found.torch, found.devices) == ("2.13.0", ())
    probe.answers([CPU])
    assert load_inventory().error == ""


def test_a_probe_that_hangs_is_ended_with_all_that_it_started(
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


def test_a_machine_without_pytorch_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "torch_version", lambda: "")
    found = load_inventory()
    assert (found.torch, found.devices) == ("", ())
    assert "pip install torch" in found.error


def test_the_real_probe_finds_at_least_the_cpu() -> None:
    found = load_inventory()
    assert found.error == ""
    assert found.torch == inventory.torch_version()
    assert found.devices[0].name == "cpu"
