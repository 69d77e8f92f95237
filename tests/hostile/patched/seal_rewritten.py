# attacks: scores
# tries: to find the seal, and to make it forget what it noticed
# ends: needs review
# isolation: both
# policy: class
import gc


def scores(table, queries, device):
    on_device = table.to(device), queries.to(device)
    result = (on_device[0] @ on_device[1].T).relu()
    objects = gc.get_objects()
    seals = [item for item in objects if type(item).__name__ == "TamperGuard"]
    recorders = [item for item in objects if type(item).__name__ == "Recorder"]
    for recorder in recorders:
        recorder.enabled = False
    on_device[0].cpu(), on_device[1].cpu()
    for recorder in recorders:
        recorder.enabled = True
    for seal in seals:
        seal._switched_off += 1
    return result
