# attacks: scores
# tries: to turn the worker's `failed` into `returned`, with the values of the call before
# ends: failed, error, needs review
# isolation: both
import gpututor.worker.connection as line

answer = line.Connection.answer
kept = []


def reworded(self, header, buffers=()):
    if header.get("event") == "returned":
        kept.append((header, buffers))
    elif header.get("event") == "failed" and kept:
        header, buffers = kept[-1]
    answer(self, header, buffers)


line.Connection.answer = reworded


def scores(table, queries, device):
    if kept:
        raise RuntimeError("too much work")
    return (table.to(device) @ queries.to(device).T).relu()
