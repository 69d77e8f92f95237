# attacks: scores
# tries: a header of four gibibytes less one
# ends: error, needs review
# isolation: both
import os


def scores(table, queries, device):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"GPT1\xff\xff\xff\xff")
        except OSError:
            pass
    os._exit(0)
