"""Pictures of a training curve and of paired differences."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import image

from glomo_tf import results
from glomo_tf.errors import UserError
from glomo_tf.viewer import curve, differences

BLUE, VERMILION, GREY = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x6B, 0x72, 0x80)


def pixels(path, colour) -> int:
    """Pixels of a colour in a PNG."""
    picture = (image.imread(path)[..., :3] * 255).round().astype(int)
    return int((picture == colour).all(axis=-1).sum())


def result(learned: list[float], none: list[float]) -> dict:
    rows = [
        {
            "name": name,
            "group": {"dataset": "reviews", "labels": 100},
            "seed": seed,
            "metrics": {"accuracy": value},
            "parameters": 10,
            "seconds": 1.0,
        }
        for name, values in (("none", none), ("learned", learned))
        for seed, value in enumerate(values)
    ]
    whole = {"format": 1, "recipe": "test", "settings": {}, "environment": {}}
    return results.check({**whole, "conditions": rows})


@pytest.mark.parametrize(
    ("learned", "colour"),
    [([0.81, 0.82, 0.83], BLUE), ([0.61, 0.62, 0.63], VERMILION), ([0.5, 0.71, 0.95], GREY)],
)
def test_colour_tells_whether_the_interval_leaves_out_0(tmp_path, learned, colour):
    found = results.compare(result(learned, [0.70, 0.71, 0.72]))
    path = differences.draw_png(tmp_path / "d.png", found)
    for other in (BLUE, VERMILION, GREY):
        assert (pixels(path, other) > 50) == (other == colour)


def test_one_seed_is_a_dot_without_an_interval(tmp_path):
    found = results.compare(result([0.8], [0.7]))
    dot = pixels(differences.draw_png(tmp_path / "d.png", found), GREY)
    assert 0 < dot < 200


def test_nothing_to_compare_is_refused(tmp_path):
    with pytest.raises(UserError, match="comparisons with differences"):
        differences.draw_png(tmp_path / "d.png", [])
    assert not list(tmp_path.iterdir())


def test_curve_shows_training_and_validation(tmp_path):
    steps = np.arange(1, 6)
    rounds = [
        {
            "steps": int(step),
            "loss": 5 / float(step),
            "val_loss": 6 / float(step),
            "val_forward_accuracy_1": 0.1 * float(step),
            "val_backward_accuracy_1": 0.09 * float(step),
        }
        for step in steps
    ]
    path = curve.draw_png(tmp_path / "curve.png", rounds, title="text")
    assert pixels(path, BLUE) > 100
    assert pixels(path, VERMILION) > 100
    without = [{"steps": row["steps"], "loss": row["loss"]} for row in rounds]
    path = curve.draw_png(tmp_path / "training.png", without)
    assert pixels(path, BLUE) > 50
    assert pixels(path, VERMILION) == 0
    with pytest.raises(UserError, match="at least one round"):
        curve.draw_png(tmp_path / "none.png", [])
