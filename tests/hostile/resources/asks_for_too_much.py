# attacks: patience
# tries: one allocation that no machine has
# ends: out of memory
# isolation: both
def scores(table, queries, device):
    return bytearray(1 << 46)
