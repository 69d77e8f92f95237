# attacks: scores
# tries: to keep its first, right answer, and to send it again with the later tickets
# ends: failed, error, needs review
# isolation: both
import gpututor.worker.connection as line

answer = line.Connection.answer
first = []


def replay(self, header, buffers=()):
    if header.get("event") == "returned":
        first or first.append((header, buffers))
        header, buffers = first[0]
    answer(self, header, buffers)


line.Connection.answer = replay


def scores(table, queries, device):
    if first:
        return None
    return (table.to(device) @ queries.to(device).T).relu()
