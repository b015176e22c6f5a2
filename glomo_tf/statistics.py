"""Means and paired differences over seeds, with t intervals and a verdict in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean with the half width of its confidence interval.

    Args:
        mean: Mean of the values.
        half_width: Half width of the interval; infinite for a single value, which says nothing
            about its own spread.
        count: Number of values.
        confidence: Coverage of the interval, 0.95 for a 95% interval.
    """

    mean: float
    half_width: float
    count: int
    confidence: float = 0.95

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width

    @property
    def within_noise(self) -> bool:
        """Whether the interval holds 0 (for a difference: nothing was shown)."""
        return self.low <= 0.0 <= self.high

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit (100 turns shares into points)."""
        return dataclasses.replace(
            self, mean=self.mean * factor, half_width=self.half_width * abs(factor)
        )

    def text(self, *, digits: int = 1, signed: bool = False) -> str:
        """Writes `mean ± half_width`; a single value has no interval and says so by `± ?`."""
        mean = f"{self.mean:{'+' if signed else ''}.{digits}f}"
        if math.isinf(self.half_width):
            return f"{mean} ± ?"
        return f"{mean} ± {self.half_width:.{digits}f}"

    def as_dict(self) -> dict[str, float | int | bool | None]:
        """Plain values for JSON; an infinite half width becomes None."""
        finite = math.isfinite(self.half_width)
        return {
            "mean": self.mean,
            "half_width": self.half_width if finite else None,
            "count": self.count,
            "confidence": self.confidence,
            "within_noise": self.within_noise,
        }


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Mean of independent values with a two-sided t interval.

    The half width is `t_quantile((1 + confidence) / 2, n - 1) * s / sqrt(n)`, s being the
    standard deviation with n - 1 in the denominator.

    Args:
        values: At least one finite number.
        confidence: Coverage, between 0 and 1.

    Returns:
        An `Interval`.

    Raises:
        ValueError: If there is no value, a value is not finite, or the confidence is out of
            range.

    Example:

    >>> mean_interval([1.0, 2.0, 3.0]).text(digits=2)
    '2.00 ± 2.48'
    """
    numbers = [float(value) for value in values]
    if not numbers or not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"Expected at least one value, all finite. Received: {numbers}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"Expected `confidence` between 0 and 1. Received: {confidence}.")
    count = len(numbers)
    mean = math.fsum(numbers) / count
    if count == 1:
        return Interval(mean, math.inf, 1, confidence)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (count - 1)
    quantile = t_quantile((1.0 + confidence) / 2.0, count - 1)
    return Interval(mean, quantile * math.sqrt(variance / count), count, confidence)


def paired_difference(
    first: Mapping[int, float], second: Mapping[int, float], *, confidence: float = 0.95
) -> Interval:
    """Mean of `first - second` over the seeds that both have, with a t interval.

    Pairing by seed takes away what both runs share (subset, batches, initial weights), which
    is most of the spread at few labels. The interval covers the seeds' randomness only, not
    that of the pre-training run behind the graphs.

    Args:
        first: Value by seed.
        second: Value by seed.
        confidence: Coverage, between 0 and 1.

    Returns:
        An `Interval` over the common seeds.

    Raises:
        ValueError: If the two have no seed in common.

    Example:

    >>> paired_difference({0: 3.0, 1: 5.0, 2: 7.0}, {0: 2.0, 1: 3.0, 2: 4.0}).text(digits=2)
    '2.00 ± 2.48'
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        raise ValueError(
            "Expected seeds that both sides have. Received: "
            f"{sorted(first)} and {sorted(second)}. Run both with the same seeds."
        )
    return mean_interval([first[seed] - second[seed] for seed in seeds], confidence=confidence)


def verdict(difference: Interval, first: str, second: str) -> str:
    """Says in words what a paired difference shows.

    Args:
        difference: Interval of `first - second` of a figure where more is better.
        first: Name of the first side.
        second: Name of the second side.

    Returns:
        One clause, for example "learned better than none".

    Example:

    >>> verdict(Interval(1.0, 1.1, 5), "learned", "none")
    'learned and none within noise'
    """
    if math.isinf(difference.half_width):
        return f"{first} against {second}: one seed, no interval"
    if difference.count < 3:
        return f"{first} against {second}: too few seeds to tell"
    if difference.within_noise:
        return f"{first} and {second} within noise"
    return f"{first} {'better' if difference.mean > 0 else 'worse'} than {second}"


def t_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Quantile of Student's t distribution with a whole number of degrees of freedom.

    With `theta = atan(t / sqrt(n))` the distribution function is a finite sum of powers of
    cos(theta), so it is exact here; the quantile is found by halving an interval of theta.

    Args:
        probability: Between 0 and 1, both excluded.
        degrees_of_freedom: Whole number n >= 1.

    Returns:
        t with `P(T <= t) = probability`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> round(t_quantile(0.975, 4), 3)
    2.776

    References:
        Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    if not 0.0 < probability < 1.0:
        raise ValueError(f"Expected `probability` between 0 and 1. Received: {probability}.")
    if degrees_of_freedom < 1 or degrees_of_freedom != int(degrees_of_freedom):
        raise ValueError(
            "Expected a whole number of `degrees_of_freedom` of at least 1. "
            f"Received: {degrees_of_freedom}."
        )
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees_of_freedom)
    inside, low, high = 2.0 * probability - 1.0, 0.0, math.pi / 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if _inside(middle, degrees_of_freedom) < inside:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees_of_freedom) * math.tan((low + high) / 2.0)


def _inside(theta: float, degrees_of_freedom: int) -> float:
    """P(|T| <= sqrt(n) tan(theta))."""
    cosine = math.cos(theta)
    odd = degrees_of_freedom % 2
    term = cosine if odd else 1.0
    total = term if degrees_of_freedom > 1 else 0.0
    for step in range(2 + odd, degrees_of_freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    total *= math.sin(theta)
    return 2.0 / math.pi * (theta + total) if odd else total
