# attacks: patience
# tries: to catch all that could end it, and to continue
# ends: timeout
# isolation: both
def scores(table, queries, device):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
