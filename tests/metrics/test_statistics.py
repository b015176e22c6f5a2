"""Statistics against scipy and by hand."""

from __future__ import annotations

import math

import pytest

from glomo_tf.statistics import Interval, mean_interval, paired_difference, t_quantile, verdict


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 10, 29, 200])
@pytest.mark.parametrize("probability", [0.025, 0.5, 0.9, 0.975, 0.995])
def test_t_quantile_equals_scipy(degrees: int, probability: float) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    expected = float(stats.t.ppf(probability, degrees))
    assert t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_t_quantile_of_printed_tables() -> None:
    table = {1: 12.706, 2: 4.303, 4: 2.776, 7: 2.365, 30: 2.042}
    for degrees, value in table.items():
        assert round(t_quantile(0.975, degrees), 3) == value


def test_mean_interval_by_hand() -> None:
    # s = 1, so the half width is 4.303 / sqrt(3).
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.half_width == pytest.approx(4.3026527 / math.sqrt(3))
    assert (interval.low + interval.high) / 2 == pytest.approx(2.0)


def test_pairing_takes_away_what_the_seeds_share() -> None:
    # The runs differ by 10 from seed to seed, the differences by nothing.
    difference = paired_difference({0: 1.0, 1: 11.0, 9: 5.0}, {1: 10.0, 0: 0.0, 4: 3.0})
    assert (difference.mean, difference.half_width, difference.count) == (1.0, 0.0, 2)
    assert not difference.within_noise


def test_one_value_has_no_interval() -> None:
    interval = mean_interval([0.5])
    assert math.isinf(interval.half_width)
    assert interval.within_noise
    assert interval.as_dict()["half_width"] is None
    assert interval.text() == "0.5 ± ?"
    assert verdict(interval, "a", "b") == "a against b: one seed, no interval"


@pytest.mark.parametrize(
    ("mean", "half", "words"),
    [
        (1.0, 0.5, "a better than b"),
        (-1.0, 0.5, "a worse than b"),
        (0.4, 0.5, "a and b within noise"),
        (-0.4, 0.5, "a and b within noise"),
        (0.5, 0.5, "a and b within noise"),
    ],
)
def test_verdict(mean: float, half: float, words: str) -> None:
    assert verdict(Interval(mean, half, 5), "a", "b") == words


def test_text_and_scale() -> None:
    assert Interval(0.0123, 0.004, 5).scaled(100).text(signed=True) == "+1.2 ± 0.4"
    assert Interval(0.0123, 0.004, 5).scaled(-100).text(digits=2) == "-1.23 ± 0.40"


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_mean_interval_wants_finite_values(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one value, all finite"):
        mean_interval(values)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="seeds that both sides have"):
        paired_difference({0: 1.0}, {1: 1.0})
    with pytest.raises(ValueError, match="Expected `confidence` between 0 and 1"):
        mean_interval([1.0, 2.0], confidence=95)
    with pytest.raises(ValueError, match="Expected `probability` between 0 and 1"):
        t_quantile(1.0, 3)
    with pytest.raises(ValueError, match="whole number of `degrees_of_freedom`"):
        t_quantile(0.9, 0)


def test_two_seeds_give_no_verdict() -> None:
    assert verdict(Interval(1.0, 0.0, 2), "a", "b") == "a against b: too few seeds to tell"
    assert verdict(Interval(1.0, 0.0, 3), "a", "b") == "a better than b"
