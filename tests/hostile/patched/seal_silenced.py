# attacks: scores
# tries: to replace the very functions that notice what was replaced
# ends: failed, error, needs review
# isolation: both
import sys

from gpututor.devices.recorder import Recorder


def scores(table, queries, device):
    for name, module in list(sys.modules.items()):
        for part in list(vars(module).values()) if name.startswith("gpututor.worker") else ():
            if isinstance(part, type) and "changed" in vars(part):
                part.changed = lambda self: []
    on_device = table.to(device), queries.to(device)
    Recorder.transfer = lambda self, *_, **__: -1
    return (on_device[0].cpu() @ on_device[1].cpu().T).relu().to(device)
