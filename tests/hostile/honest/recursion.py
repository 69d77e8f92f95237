# attacks: label
# tries: nothing: it calls itself
# ends: passed
# isolation: both
def depth(number):
    return 0 if number == 0 else 1 + depth(number - 1)


def label(number):
    return {"words": f"number {depth(number % 500) + number - number % 500}", "half": number / 2}
