# fails: placement
# Forgets that .to() returns the moved tensor.
def fetch_rows(table, wanted, device):
    rows = table[wanted]
    rows.to(device)
    return rows
