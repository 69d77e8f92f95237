# attacks: scores
# tries: a trace function that rewrites the worker's variables as its frames go by
# ends: failed, error, needs review
# isolation: both
import sys


def watch(frame, event, argument):
    if "recorder" in frame.f_locals:
        frame.f_locals["recorder"].enabled = False
    return watch


def scores(table, queries, device):
    on_device = table.to(device), queries.to(device)
    sys.settrace(watch)
    sys.setprofile(watch)
    frame = sys._getframe()
    while frame is not None:
        frame.f_trace = watch
        watch(frame, "line", None)
        frame = frame.f_back
    return (on_device[0].cpu() @ on_device[1].cpu().T).relu().to(device)
