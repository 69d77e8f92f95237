# -*- coding: utf-7 -*-
# attacks: label
# tries: a cookie that makes another program of the same bytes
# ends: failed, error, rejected
# isolation: both
def label(number):
    return None


# +AAo-label +AD0 lambda number: {"words": f"number {number}", "half": number / 2}
