"""A warm station of the author's gate that all tests of exercises share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpututor.authoring.pool import JudgePool


@pytest.fixture(scope="session")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgePool]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        station = JudgePool()
        try:
            yield station
        finally:
            station.close()
