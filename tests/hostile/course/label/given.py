"""A number."""


def draw(seed: int, case: int) -> dict[str, object]:
    return {"number": seed + case}
