"""A device under observation for each test."""

from __future__ import annotations

import pytest

from tests.support.fake_device_programs import Watched


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Watched:
    """The test's own file is the learner's."""
    return Watched(str(request.path))
