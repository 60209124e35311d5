"""How an answer becomes whole numbers and a sum is read, by hand; noise as it should be."""

import numpy as np
import pytest
from scipy import stats

from tffapps.secure_sums import randomness
from tffapps.secure_sums.agreement import Refused
from tffapps.secure_sums.form import BOUND, LEFT_OUT, PLAIN, TIMES, WEIGHT, Form, Noise

FORM = Form(((TIMES, 2), (WEIGHT, 1), (LEFT_OUT, 1), (PLAIN, 1)))
SHIFT = 2**49


def test_a_weighted_mean_by_hand():
    """Updates (1, -2) of 3 examples and (5, 0.5) of 1: the means are (3 + 5)/4 and (-6 + 0.5)/4."""
    first, second = (FORM.numbers(np.array(row)) for row in ([1, -2, 3, 7, 1], [5, 0.5, 1, 8, 1]))
    assert ((first - SHIFT) / 2**20).tolist() == [3, -6, 3, 1, 0]  # no 7: it is left out; the last counts what is cut
    total = FORM.read(first + second, 2)
    assert total.values.tolist() == [2, -1.375, 4, 0, 2] and (total.weight, total.out_of_range) == (4, 0)


def test_a_member_shortens_what_is_too_long():
    """(3, 4) has the length 5; the examples, and what is sent as it is, are as they were."""
    sent = FORM.numbers(np.array([3.0, 4, 2, 7, 1]), longest=1.0)
    np.testing.assert_allclose((sent - SHIFT) / 2**20, [1.2, 1.6, 2, 1, 0], atol=1e-6)
    whole = FORM.numbers(np.array([3.0, 4, 2, 7, 1]), longest=5.0)
    assert ((whole - SHIFT) / 2**20).tolist() == [6, 8, 2, 1, 0]
    with pytest.raises(Refused, match="not finite"):
        FORM.numbers(np.array([np.inf, 4, 2, 7, 1]), longest=1.0)


def test_what_does_not_fit_is_counted_and_what_is_no_number_refused():
    cut = FORM.numbers(np.array([BOUND, 1, 2, 0, 1]))
    assert FORM.read(cut, 1).out_of_range == 1
    left_out = FORM.numbers(np.array([0, np.nan, 0, 0, 0]))  # who leaves itself out has no loss
    assert FORM.read(left_out, 1).values.tolist() == [0] * 5
    for row in ([np.nan, 0, 1, 0, 1], [0, 0, -1, 0, 1], [0, 0, np.inf, 0, 1], [0, 0, 1]):
        with pytest.raises(Refused):
            FORM.numbers(np.array(row))
    with pytest.raises(Refused, match="so few numbers cannot have"):
        FORM.read(np.full(5, 2**50), 1)


def test_noise_is_clipped_first_and_covers_everything():
    form = Form(((TIMES, 2), (WEIGHT, 1), (LEFT_OUT, 1)), Noise(1.0, 0.0))
    sent = form.numbers(np.array([3, 4, 9, 9]))
    np.testing.assert_allclose((sent - SHIFT) / 2**20, [0.6, 0.8], atol=1e-6)
    np.testing.assert_allclose(form.read(2 * sent, 2).values, [0.6, 0.8, 2, 0], atol=1e-6)
    with pytest.raises(Refused, match="not everything is noised"):
        Form(((TIMES, 2), (WEIGHT, 1), (PLAIN, 1)), Noise(1.0, 1.0))
    spread = Noise(2.0, 3.0, shared_by=4).applied(np.zeros(100_000)).std()
    assert spread == pytest.approx(3, rel=0.02)  # 2 · 3 / √4


def test_gaussian_numbers():
    drawn = randomness.gaussian(100_001)
    assert drawn.shape == (100_001,) and stats.kstest(drawn, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(drawn[:50_000], drawn[50_000:100_000])[0, 1]) < 0.03
    assert not np.array_equal(drawn, randomness.gaussian(100_001))


@pytest.mark.parametrize(
    "change",
    [{"runs": "x"}, {"runs": [["times", -1]]}, {"runs": [["steal", 1]]}, {"noise": {}}, {"runs": []}, {"more": 1},
     {"noise": {"clip": "1", "multiplier": 1, "shared_by": 1}},
     {"noise": {"clip": 1, "multiplier": 1, "shared_by": 0}}],
)  # fmt: skip
def test_forms_that_are_none(change):
    assert Form.from_fields(FORM.to_fields()) == FORM
    with pytest.raises(Refused):
        Form.from_fields({**FORM.to_fields(), **change})
