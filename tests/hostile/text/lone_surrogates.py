# attacks: label
# tries: text that cannot be encoded, in print, error and result
# ends: failed, error
# isolation: both
def label(number):
    print(ascii("\ud800"))
    if number % 2:
        raise ValueError("\ud800\udfff" * 10)
    return {"words": "\udcff", "half": "\ud800"}
