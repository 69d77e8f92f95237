# attacks: label
# tries: to close every descriptor, so that the judge never gets the result
# ends: error, crashed, needs review
# isolation: both
import os


def label(number):
    os.closerange(0, 256)
    return {"words": f"number {number}", "half": number / 2}
