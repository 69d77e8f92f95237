"""Entry point that Python imports as it starts: a child process enters a machine like its parent's.

It shadows the installation's own `sitecustomize`, which is imported afterwards.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _here]

# The child may be another Python, without gpututor.
if importlib.util.find_spec("gpututor") is not None:
    from gpututor.devices.virtual.distributed.child_processes import MachineSettings, enter_when_torch_is_imported

    def _enter(settings: MachineSettings) -> None:
        from gpututor.devices.virtual.session import enter_inherited

        enter_inherited(settings)

    enter_when_torch_is_imported(_enter)

_this = sys.modules.pop("sitecustomize")
try:
    if importlib.util.find_spec("sitecustomize") is not None:
        importlib.import_module("sitecustomize")
finally:
    # Python looks up the imported module under this name.
    sys.modules.setdefault("sitecustomize", _this)
