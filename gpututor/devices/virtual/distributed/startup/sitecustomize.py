"""Python imports this as it starts: a process that was started on a virtual machine enters one like it.

It stands in front of the installation's own `sitecustomize`, which is imported afterwards.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _here]

# Another Python, without gpututor, can be a child too.
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
    # Python looks for what it imported under this name.
    sys.modules.setdefault("sitecustomize", _this)
