"""The search for settings: what is refused before it costs time, what is kept, what goes on."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glomo_tf import GLoMo, GraphPredictor, tuning
from glomo_tf.errors import UserError
from glomo_tf.files import read_json, write_json
from glomo_tf.progress import Progress
from glomo_tf.recipes import tune_text
from glomo_tf.settings import override

keras_tuner = pytest.importorskip("keras_tuner", reason="the extra tune is not installed")

# keras-tuner asks for the thread by names that Python has given up.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:(currentThread|getName)\(\) is deprecated:DeprecationWarning"
)

TEXT = "\n\n".join(f"the cat number {i} sat on the mat and saw a dog run by" for i in range(40))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tune_text.Settings:
    (tmp_path / "text").mkdir()
    for part in range(4):
        (tmp_path / "text" / f"{part}.txt").write_text(TEXT)

    def tiny(hp: Any, vocabulary_size: int, **_: Any) -> GraphPredictor:
        heads = hp.Choice("num_heads", [1, 2])
        return GraphPredictor(
            vocabulary_size, width=4, num_layers=1, num_heads=heads, head_dim=2, cnn_depth=1
        )

    monkeypatch.setattr(tuning, "graph_predictor_space", tiny)
    small = {**tune_text.SMOKE, "source": f"text:{tmp_path / 'text'}", "trials": 1, "length": 8}
    return override(tune_text.Settings(), {**small, "steps": 2, "held_out": 0.2})


def run(settings: tune_text.Settings, folder: Path) -> dict[str, Any]:
    with Progress(io.StringIO()) as progress:
        return tune_text.run(settings, folder, progress=progress)


def test_an_unknown_figure_is_refused_with_those_there_are(
    settings: tune_text.Settings, tmp_path: Path
) -> None:
    """Report 33: not after minutes of the first trial."""
    wrong = dataclasses.replace(settings, figure="val_los", source="text:/nowhere")
    with pytest.raises(UserError, match=r"val_los\. Did you mean val_loss"):
        run(wrong, tmp_path / "run")


def test_a_search_goes_on_and_its_best_model_gives_the_recorded_figure(
    settings: tune_text.Settings, tmp_path: Path
) -> None:
    """Report 36: what the search calls best can be made again and predicts."""
    folder = tmp_path / "run"
    first = run(settings, folder)
    assert len(first["trials"]) == 1
    both = run(dataclasses.replace(settings, trials=2), folder)
    assert first["trials"][0] in both["trials"]
    scores = [trial["score"] for trial in both["trials"]]
    assert len(scores) == 2
    assert scores == sorted(scores)
    assert (both["score"], both["hyperparameters"]) == tuple(both["trials"][0].values())

    hp = keras_tuner.HyperParameters.from_config({"space": [], "values": both["hyperparameters"]})
    vocabulary_size = 20
    model = tuning.GLoMoHyperModel(vocabulary_size).build(hp)
    assert isinstance(model, GLoMo)
    assert model.graph_predictor.num_heads == both["hyperparameters"]["num_heads"]
    heads = model.graph_predictor.num_heads
    graph = np.asarray(model.graph_predictor(np.array([[3, 4, 5]])))
    assert graph.shape == (1, 2, heads, 3, 3)


def test_another_space_in_the_same_folder_is_refused(
    settings: tune_text.Settings, tmp_path: Path
) -> None:
    """Report 37: an old search is never silently gone on with in a new space."""
    folder = tmp_path / "run"
    write_json(folder / "space.json", [{"class_name": "Fixed"}])
    with pytest.raises(UserError, match=r"search space.*--overwrite"):
        run(settings, folder)
    assert read_json(folder / "space.json") == [{"class_name": "Fixed"}]


def test_if_every_trial_fails_that_is_an_error(
    settings: tune_text.Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report 34: no "best" settings out of trials that all failed."""

    def fails(self: GLoMo, *_: Any, **__: Any) -> None:
        raise keras_tuner.errors.FailedTrialError("no memory left")

    monkeypatch.setattr(GLoMo, "fit", fails)
    for trials, failed in ((1, 1), (5, 3)):  # After three in a row the search ends.
        some = dataclasses.replace(settings, trials=trials)
        with pytest.raises(UserError, match=rf"{failed} failed ones.*: .*no memory left"):
            run(some, tmp_path / f"run-{trials}")
