# fails: parity
# Sorts the row numbers "to read memory in order": the rows come back in another order than asked for.
def fetch_rows(table, wanted, device):
    return table[sorted(wanted)].to(device)
