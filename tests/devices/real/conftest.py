"""A device under observation for each test."""

from __future__ import annotations

import pytest

from tests.support.fake_device_programs import Watched


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Watched:
    """Return a device that records the lines of the test's own file."""
    return Watched(str(request.path))
