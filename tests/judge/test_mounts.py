"""What is bound into bubblewrap: real places, the links that lead there, and no package that was not asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.errors import NotGradableHere
from gpututor.judge.isolation import bubblewrap
from gpututor.judge.isolation.bubblewrap import Mounts, follow


def test_links_are_followed_and_kept_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "near").symlink_to("real")
    (tmp_path / "far").symlink_to(tmp_path / "near" / "deep" / "..")
    links: dict[Path, str] = {}

    assert follow(tmp_path / "far" / "deep", links) == tmp_path / "real" / "deep"
    assert links[tmp_path / "near"] == "real"
    assert links[tmp_path / "far"] == str(tmp_path / "near" / "deep" / "..")


def test_links_in_a_circle_are_an_error_and_no_endless_walk(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")

    with pytest.raises(OSError, match="too many symbolic links"):
        follow(tmp_path / "one", {})


def test_installed_packages_inside_a_bound_folder_are_covered(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    mounts = Mounts()
    mounts.add(tmp_path / "lib")
    mounts.add(tmp_path / "lib" / "python3.11")
    mounts.add(tmp_path / "missing")

    said = " ".join(mounts.arguments())
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    assert said.startswith(f"--ro-bind {tmp_path}/lib {tmp_path}/lib --tmpfs {site} --remount-ro {site}")


@pytest.mark.isolation
@pytest.mark.parametrize("nesting", [False, True])
def test_no_setting_of_the_system_can_be_changed(nesting: bool) -> None:
    """Root without any rights may still write to files of /proc that are root's."""
    try:
        bwrap_command = bubblewrap.bwrap_command(nesting)
    except NotGradableHere as error:
        pytest.skip(str(error))
    code = (
        "import os\n"
        "for folder, folders, files in os.walk('/proc'):\n"
        "    if folder == '/proc':\n        folders[:] = [name for name in folders if not name.isdigit()]\n"
        "    for name in files:\n"
        "        try:\n            os.close(os.open(f'{folder}/{name}', os.O_WRONLY | os.O_NONBLOCK))\n"
        "            print(folder, name)\n"
        "        except OSError:\n            pass\n"
        "print('looked')\n"
    )

    done = subprocess.run([*bwrap_command, sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)

    assert done.stdout == "looked\n", done.stderr


@pytest.mark.parametrize("place", ["/tmp/checkout/gpututor", "/opt/gpututor"])
def test_a_checkout_below_tmp_stays_where_it_is(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Bound:
        def arguments(self) -> list[str]:
            return ["--ro-bind", place, place]

    monkeypatch.setattr(bubblewrap, "worker_mounts", Bound)

    told = bubblewrap._bwrap_arguments.__wrapped__("/usr/bin/bwrap", False)

    assert ("/tmp" in told) is not place.startswith("/tmp/")
