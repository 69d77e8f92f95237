# attacks: scores
# tries: to change its inputs, and to have the digests before and after called equal
# ends: failed, error, needs review
# isolation: both
from gpututor.protocol.encode import Encoder

Encoder.digests = lambda self, value: {}


def scores(table, queries, device):
    result = (table.to(device) @ queries.to(device).T).relu()
    table.zero_()
    return result
