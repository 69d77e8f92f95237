"""The Dockerfile and the development container agree with the project: paths, versions, commands."""

from __future__ import annotations

import json
import re
import shlex
import tomllib

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
DEVCONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))


def instructions(keyword: str) -> list[list[str]]:
    """Return the words of each instruction of the Dockerfile with this keyword."""
    lines = re.findall(rf"^{keyword} (.+)$", DOCKERFILE, re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_the_image_copies_what_the_build_needs() -> None:
    copied = {source for *sources, _ in instructions("COPY") for source in sources}
    missing = [source for source in copied if not (ROOT / source).exists()]
    assert missing == []
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*build["packages"], *build["force-include"], *PROJECT["project"]["license-files"]}
    assert needed | {"pyproject.toml", PROJECT["project"]["readme"]} <= copied


def test_both_images_have_a_python_that_the_project_supports() -> None:
    (image,), (version,) = instructions("FROM"), re.findall(r"python:(\d+\.\d+)$", DEVCONTAINER["image"])
    assert image == [f"python:{version}-slim"]
    assert version in SpecifierSet(PROJECT["project"]["requires-python"])


def test_the_image_installs_the_pinned_cpu_build_and_extras_that_exist() -> None:
    (words,) = instructions("RUN")
    install = words[: words.index("&&")]
    assert install[install.index("-c") + 1] == "constraints.txt"
    index = install[install.index("--extra-index-url") + 1]
    assert index == DEVCONTAINER["containerEnv"]["PIP_EXTRA_INDEX_URL"]
    assert f"--index-url {index}" in (ROOT / "README.md").read_text(encoding="utf-8")
    extras = Requirement(install[-1].replace(".", "gpututor", 1)).extras
    assert extras <= set(PROJECT["project"]["optional-dependencies"])
    pins = {pin.name.lower(): str(pin.specifier)[2:] for pin in map(Requirement, CONSTRAINTS.splitlines())}
    for needed in map(Requirement, PROJECT["project"]["dependencies"]):
        assert pins[needed.name] in needed.specifier


def test_the_image_starts_the_app_as_a_user_of_its_own() -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE)
    assert set(json.loads(entry)) == {"gpututor"} == set(PROJECT["project"]["scripts"])
    (user,) = instructions("USER")[-1]
    (words,) = instructions("RUN")
    assert words[words.index("useradd") + 1 :] == ["--create-home", user]
    assert instructions("WORKDIR")[-1] == [f"/home/{user}"]
    assert f"-v gpututor:/home/{user} gpututor" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_development_container_runs_a_target_of_make() -> None:
    program, target = DEVCONTAINER["postCreateCommand"].split()
    assert program == "make"
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    python = DEVCONTAINER["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python.endswith("/.venv/bin/python")
