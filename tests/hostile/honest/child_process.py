# attacks: label
# tries: nothing: it asks a child process
# ends: passed
# isolation: both
import multiprocessing


def halve(number):
    return number / 2


def label(number):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return {"words": f"number {number}", "half": pool.map(halve, [number])[0]}
