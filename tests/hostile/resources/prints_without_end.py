# attacks: patience
# tries: to print for as long as it may run
# ends: timeout
# isolation: both
def scores(table, queries, device):
    while True:
        print("x" * 10_000)
