"""The choice among the combinations of a test's parameters."""

from itertools import product

import pytest

from tests.combinations import choose_rows

AXES = {"theme": range(2), "viewport": range(3), "language": range(4), "state": range(3)}
PRODUCT = [dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())]


def test_every_value_occurs_in_a_choice_of_strength_one() -> None:
    chosen = [PRODUCT[position] for position in choose_rows(PRODUCT, strength=1)]
    assert {name: {row[name] for row in chosen} for name in AXES} == {
        name: set(values) for name, values in AXES.items()
    }
    assert len(chosen) == 4


def test_every_pair_occurs_in_a_choice_of_strength_two() -> None:
    chosen = [PRODUCT[position] for position in choose_rows(PRODUCT, strength=2)]
    for one, other in product(AXES, AXES):
        pairs = {(row[one], row[other]) for row in chosen}
        assert pairs == {(row[one], row[other]) for row in PRODUCT}
    assert len(chosen) < len(PRODUCT) / 3


@pytest.mark.parametrize("strength", [1, 2])
def test_only_pairs_that_exist_are_covered(strength: int) -> None:
    rows = [{"binding": 0, "version": 0}, {"binding": 1, "version": 1}]
    assert choose_rows(rows, strength=strength) == [0, 1]


def test_no_rows_give_an_empty_choice() -> None:
    assert choose_rows([], strength=2) == []
