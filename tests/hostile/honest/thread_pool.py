# attacks: label
# tries: nothing: it works in a pool of threads
# ends: passed
# isolation: both
from concurrent.futures import ThreadPoolExecutor


def label(number):
    with ThreadPoolExecutor(2) as pool:
        half = pool.submit(lambda: number / 2)
        words = pool.submit("number {}".format, number)
        return {"words": words.result(), "half": half.result()}
