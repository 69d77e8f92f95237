"""A session of pytest inside a test, with the plugin."""

from __future__ import annotations

import pytest

# A plain name, as where the entry point is not installed; where it is, it is the same plugin.
PLUGIN = ("-p", "gpututor.pytest_plugin")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """The plugin's session in this process."""
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments)
