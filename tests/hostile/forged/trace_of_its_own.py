# attacks: scores
# tries: an answer whose trace holds negative times, events of no kind and absurd sizes
# ends: failed, error, needs review
# isolation: both
import gpututor.worker.connection as line

answer = line.Connection.answer


def forged(self, header, buffers=()):
    if "trace" in header:
        trace = dict(header["trace"])
        for name, column in trace.items():
            if isinstance(column, list) and column and isinstance(column[0], int):
                trace[name] = [-(2**70)] * len(column)
            elif isinstance(column, str):
                trace[name] = "A" * 7
        header = {**header, "trace": {**trace, "dropped": -1}}
    answer(self, header, buffers)


line.Connection.answer = forged


def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu()
