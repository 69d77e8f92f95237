# attacks: scores
# tries: to put a fresh trace, without the copies, in the place of the real one
# ends: failed, error, needs review
# isolation: both
import gc

from gpututor.devices.recorder import Recorder
from gpututor.trace.columns import Trace


def scores(table, queries, device):
    recorders = [item for item in gc.get_objects() if isinstance(item, Recorder)]
    result = (table.to(device).cpu() @ queries.to(device).cpu().T).relu().to(device)
    for item in recorders:
        item.trace = Trace()
    table.to(device), queries.to(device)
    return result
