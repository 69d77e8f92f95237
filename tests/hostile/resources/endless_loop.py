# attacks: patience
# tries: never to return
# ends: timeout
# isolation: both
def scores(table, queries, device):
    while True:
        pass
