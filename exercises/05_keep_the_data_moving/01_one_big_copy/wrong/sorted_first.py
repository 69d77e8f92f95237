# fails: parity
# Sorts the row numbers "to read memory in order": the rows come back in the wrong order.
def fetch_rows(table, wanted, device):
    return table[sorted(wanted)].to(device)
