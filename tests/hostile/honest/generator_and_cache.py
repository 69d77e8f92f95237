# attacks: label
# tries: nothing: it caches what is the same in every call
# ends: passed
# isolation: both
import functools


@functools.lru_cache
def words(number):
    return f"number {number}"


def halves(number):
    yield number / 2


def label(number):
    return {"words": words(number), "half": next(halves(number))}
