# attacks: label
# tries: a result of forty mebibytes of text, and whole numbers without end
# ends: failed
# isolation: both
def label(number):
    return {"words": "x" * (40 << 20), "half": 1 << 200_000}
