"""The command line as its users meet it: exit codes, one answer, one line for an error.

Recipes are stood in for by small modules of the same form; what they compute has its own tests.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import glomo_tf.recipes
from glomo_tf.cli import COMMANDS, app, main
from glomo_tf.commands.shared import explain
from glomo_tf.errors import UserError

ROOT = Path(__file__).parents[2]
NAMES = [command.__name__ for command in COMMANDS]
AS_COMMAND = "import sys; sys.argv[0] = 'glomo'; from glomo_tf.cli import main; main()"


@dataclasses.dataclass(frozen=True)
class Settings:
    source: str = "python:docs"
    preset: str | None = None
    steps: int = 100
    seed: int = 0


def recipe(name: str, body: Callable[..., dict[str, Any]]) -> types.ModuleType:
    module = types.ModuleType(f"glomo_tf.recipes.{name}")
    module.Settings = Settings  # type: ignore[attr-defined]
    module.SMOKE = {"steps": 2}  # type: ignore[attr-defined]
    module.run = body  # type: ignore[attr-defined]
    return module


def works(settings: Settings, folder: Path, *, progress: Any) -> dict[str, Any]:
    progress.stage("train")
    for step in range(settings.steps):
        progress.advance(step + 1, settings.steps, loss=1 / (step + 1))
    print("a library that prints")
    (folder / "graph.png").write_text("")
    return {"accuracy": 0.5, "files": ["graph.png"], "table": "| a |\n|---|"}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def put(body: Callable[..., dict[str, Any]], *names: str) -> None:
        for name in names or ("demo", "pretrain_text", "sentiment"):
            module = recipe(name, body)
            monkeypatch.setitem(sys.modules, module.__name__, module)
            monkeypatch.setattr(glomo_tf.recipes, name, module, raising=False)

    put(works)
    return put


@dataclasses.dataclass
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def glomo(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def call(*words: object) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        captured = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, captured.out, captured.err)

    return call


def fails(ended: Ended, *words: str, code: int = 2) -> None:
    """Exit code, nothing on standard output, one line with these words on standard error."""
    assert ended.code == code
    assert ended.out == ""
    lines = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in ended.err
    for word in words:
        assert word in lines[0]


# Help


def test_help_names_every_command_and_needs_no_tensorflow() -> None:
    code = (
        "import sys, atexit; sys.argv[0] = 'glomo'; atexit.register(lambda: print('modules:',"
        " {'tensorflow', 'keras', 'numpy', 'matplotlib'} & set(sys.modules)))\n"
        "from glomo_tf.cli import main; main()"
    )
    for words in (["--help"], [], ["pretrain", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "modules: set()" in done.stdout
        assert all(name in done.stdout for name in NAMES) or words[:1] == ["pretrain"]


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_has_what_it_does_its_options_and_examples(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
    text = shown.output
    assert "--json" in text
    assert "--debug" in text
    assert "Examples:" in text
    assert f"  glomo {name}" in text
    if name in ("demo", "pretrain", "transfer", "tune"):
        assert "--set NAME=VALUE" in text
        assert "--smoke" in text
    # Every option and argument says what it is.
    described = [line for line in text.splitlines() if line.startswith(("  --", "  -h"))]
    assert described
    for line in described:
        assert len(line.split("  ")) > 2 or len(line) > 20


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["pretian"], ["'pretian'", "Did you mean 'pretrain'?", "glomo --help"]),
        (["xyzzy"], ["'xyzzy'", "There are demo, pretrain"]),
        (["pretrain", "--ot", "x"], ["--ot", "--out", "glomo pretrain --help"]),
        (["transfer"], ["'task'", "glomo transfer --help"]),
        (["export", "--out", "x", "--model-version", "one"], ["--model-version", "integer"]),
        (["tune", "--method", "grid"], ["--method", "grid", "random"]),
        (["transfer", "sentimnet"], ["sentimnet", "Did you mean sentiment?"]),
        (["evaluate", "/nowhere/result.json"], ["/nowhere/result.json"]),
    ],
)
def test_wrong_words(glomo: Callable[..., Ended], words: list[str], parts: list[str]) -> None:
    fails(glomo(*words), *parts)


# Settings


@pytest.mark.parametrize("words", [["pretrain"], ["demo"], ["transfer", "sentiment"]])
def test_unknown_settings_name_near_matches_and_write_nothing(
    glomo: Callable[..., Ended], stand_in: Any, tmp_path: Path, words: list[str]
) -> None:
    ended = glomo(*words, "--out", tmp_path / "run", "--set", "step=3")
    fails(ended, "Received: step.", "Did you mean steps?")
    fails(glomo(*words, "--out", tmp_path / "run", "--set", "steps=x"), "a whole number", "steps=x")
    assert not (tmp_path / "run").exists()


def test_options_smoke_and_set_in_that_order(
    glomo: Callable[..., Ended], stand_in: Any, tmp_path: Path
) -> None:
    words = ["pretrain", "text:notes.txt", "--smoke", "--show-settings", "--json"]
    shown = json.loads(glomo(*words).out)
    assert shown == {
        "settings": {"source": "text:notes.txt", "preset": None, "steps": 2, "seed": 0}
    }
    shown = json.loads(glomo(*words, "--set", "steps=3", "--set", "seed=9").out)
    assert (shown["settings"]["steps"], shown["settings"]["seed"]) == (3, 9)
    text = glomo("transfer", "sentiment", "--preset", "p", "--show-settings").out
    assert "preset = p  (a text or none)" in text
    assert "steps  = 100  (a whole number)" in text


# Answers


def test_a_run_answers_once_on_standard_output(
    glomo: Callable[..., Ended], stand_in: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    ended = glomo("demo", "--out", folder, "--smoke", "--json")
    assert ended.code == 0
    answer = json.loads(ended.out)
    assert answer["folder"] == str(folder)
    assert answer["accuracy"] == 0.5
    assert answer["settings"]["steps"] == 2
    assert "a library that prints" in ended.err
    assert "train 2/2  loss=0.5" in ended.err
    assert json.loads((folder / "result.json").read_text())["recipe"] == "demo"


def test_a_run_answers_in_words(
    glomo: Callable[..., Ended], stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = glomo("pretrain", "--smoke")
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "| a |",
        "|---|",
        "accuracy: 0.5",
        "runs/pretrain_text/graph.png",
        "Everything is in runs/pretrain_text.",
    ]


def test_a_folder_that_exists_is_refused_unless_asked(
    glomo: Callable[..., Ended], stand_in: Any, tmp_path: Path
) -> None:
    words = ["pretrain", "--smoke", "--out", tmp_path]
    assert glomo(*words).code == 0
    fails(glomo(*words), str(tmp_path), "--resume", "--overwrite")
    assert glomo(*words, "--resume").code == 0
    assert glomo(*words, "--overwrite").code == 0
    fails(glomo(*words, "--resume", "--set", "seed=3"), "seed: 0 -> 3")
    (tmp_path / "settings.json").unlink()
    fails(glomo(*words, "--overwrite"), "an earlier run")
    assert (tmp_path / "result.json").exists()


def test_errors_are_answered_as_json_too(glomo: Callable[..., Ended]) -> None:
    ended = glomo("evaluate", "/nowhere/result.json", "--json")
    assert ended.code == 2
    assert "/nowhere/result.json" in json.loads(ended.out)["error"]


# Errors


def raises(error: BaseException) -> Callable[..., dict[str, Any]]:
    def run(*_: Any, **__: Any) -> dict[str, Any]:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UserError("Expected text. Received: nothing. Give some."), 2, ["Received: nothing."]),
        (ValueError("Expected `width` > 0. Received: width=0."), 2, ["width=0."]),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 2, ["/x/y: No space left"]),
        (ZeroDivisionError("division\nby zero"), 1, ["ZeroDivisionError: division by zero"]),
        (ValueError("shapes differ"), 1, ["unexpected ValueError: shapes differ", "--debug"]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
    ],
)
def test_exit_codes(
    glomo: Callable[..., Ended],
    stand_in: Any,
    tmp_path: Path,
    error: BaseException,
    code: int,
    words: list[str],
) -> None:
    stand_in(raises(error))
    fails(glomo("demo", "--out", tmp_path / "run"), *words, code=code)


def test_the_traceback_is_shown_with_debug_only(
    glomo: Callable[..., Ended], stand_in: Any, tmp_path: Path
) -> None:
    stand_in(raises(UserError("Expected text. Received: nothing.")))
    ended = glomo("demo", "--out", tmp_path / "run", "--debug")
    assert ended.code == 2
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.splitlines()[-1] == "error: Expected text. Received: nothing."


def test_errors_raised_inside_a_keras_layer_lose_their_frame() -> None:
    import keras

    class Layer(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            raise ValueError("Expected a mask.\nReceived: none.")

    with pytest.raises(ValueError, match="Expected a mask") as caught:
        Layer()(keras.ops.zeros((1, 2)))
    assert explain(caught.value) == ("error: Expected a mask. Received: none.", 2)


def test_a_full_disk_while_the_result_is_written(
    glomo: Callable[..., Ended], stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["pretrain", "--smoke", "--out", tmp_path, "--resume"]
    assert glomo(*words).code == 0
    before = (tmp_path / "result.json").read_bytes()
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if Path(target).name == "result.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    fails(glomo(*words), "result.json", "No space left on device")
    assert (tmp_path / "result.json").read_bytes() == before
    assert not list(tmp_path.glob(".tmp-*"))


WAITS = """
import sys, threading; sys.argv[0] = 'glomo'
import dataclasses, types, glomo_tf.recipes
sys.modules['tensorflow'] = types.ModuleType('tensorflow')  # What is tried needs none of it.
@dataclasses.dataclass(frozen=True)
class Settings:
    seed: int = 0
def run(settings, folder, *, progress):
    progress.note('it has begun')
    threading.Event().wait()
demo = types.ModuleType('glomo_tf.recipes.demo')
demo.Settings, demo.SMOKE, demo.run = Settings, {}, run
sys.modules[demo.__name__] = glomo_tf.recipes.demo = demo
from glomo_tf.cli import main; main()
"""


def test_ctrl_c_ends_with_130_and_one_line(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, "demo", "--out", str(tmp_path / "run")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            if "it has begun" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
        assert process.stdout.read() == ""
    assert process.returncode == 130
    assert rest == "error: interrupted\n"
    kept = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert json.loads(kept) == {"ended": "KeyboardInterrupt"}


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", AS_COMMAND, "evaluate", str(tmp_path), "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        shown = process.stderr.read()
    assert "Traceback" not in shown
    assert "BrokenPipe" not in shown


# The other commands


def result_file(folder: Path) -> Path:
    conditions = [
        {
            "name": name,
            "group": {"dataset": "x", "labels": 10},
            "seed": seed,
            "metrics": {"accuracy": value + seed / 100},
            "parameters": 3,
            "seconds": 1.0,
        }
        for name, value in (("none", 0.5), ("learned", 0.75))
        for seed in range(3)
    ]
    result = {"format": 1, "recipe": "sentiment", "settings": {}, "environment": {}}
    path = folder / "result.json"
    path.write_text(json.dumps({**result, "conditions": conditions}))
    return path


def test_evaluate_makes_tables(glomo: Callable[..., Ended], tmp_path: Path) -> None:
    path = result_file(tmp_path)
    text = glomo("evaluate", tmp_path).out
    # Every seed differs by 25 points, so the interval has no width.
    assert "| none | **+25" in text
    (read,) = json.loads(glomo("evaluate", path, "--json").out)["results"]
    assert read["file"] == str(path)
    assert read["comparisons"][0]["differences"]["none"]["mean"] == pytest.approx(0.25)
    ended = glomo("evaluate", path, path, "--out", tmp_path / "tables" / "all.md")
    assert (tmp_path / "tables" / "all.md").read_text().count("# sentiment") == 2
    assert "all.md" in ended.out
    fails(glomo("evaluate", path, "--target", "learnt"), "learnt")


def test_doctor(glomo: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    ended = glomo("doctor", "--json")
    answer = json.loads(ended.out)
    names = [check["name"] for check in answer["checks"]]
    assert names[:4] == ["python", "tensorflow", "keras", "devices"] or not answer["ok"]
    assert ended.code == (0 if answer["ok"] else 1)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    ended = glomo("doctor")
    assert ended.code == 1
    assert "FAILED" in ended.out
    assert "KERAS_BACKEND=jax" in ended.out


def test_doctor_finds_a_package_that_tuning_needs_and_does_not_declare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Report 51 (and 34): without tensorboard every trial of keras-tuner fails in use."""
    pytest.importorskip("keras_tuner", reason="the extra tune is not installed")
    from glomo_tf import doctor

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    (tune,) = [check for check in doctor.examine() if check.name == "tune"]
    assert tune.ok is False
    assert "tensorboard" in tune.detail
    assert "glomo-tf[tune]" in tune.detail


def test_doctor_lists_prepared_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glomo_tf import doctor

    folder = tmp_path / "glue" / "sst2" / "2.0.0"
    folder.mkdir(parents=True)
    (folder / "dataset_info.json").write_text("{}")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    (data,) = [check for check in doctor.examine() if check.name == "TFDS data"]
    assert data.detail == f"{tmp_path}: glue/sst2/2.0.0"
    assert "FAILED" not in doctor.report([data])


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with a tiny, untrained predictor in it."""
    from glomo_tf import GraphPredictor, TextUnits, presets

    folder = tmp_path_factory.mktemp("run") / "preset"
    units = TextUnits.from_corpus(["the cat saw the dog", "the dog ran"])
    predictor = GraphPredictor(
        units.vocabulary_size, width=4, num_layers=1, num_heads=2, head_dim=2, cnn_depth=1
    )
    predictor(units(["the cat"]))  # makes its weights
    presets.save_predictor(predictor, folder, vocabulary_fingerprint=units.fingerprint)
    units.save(folder / presets.VOCABULARY)
    return folder


def test_draw(glomo: Callable[..., Ended], preset: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra viz is not installed")
    out = tmp_path / "pictures" / "cat"
    words = ["draw", "the cat ran", "the dog saw", "--preset", preset.parent, "--out", out]
    answer = json.loads(glomo(*words, "--json").out)
    assert answer["png"] == [f"{out}.png", f"{out}-2.png"]
    assert all(Path(path).read_bytes()[:4] == b"\x89PNG" for path in answer["png"])
    page = Path(answer["html"]).read_text()
    assert "the cat ran" in page
    assert "the dog saw" in page
    fails(glomo(*words), "cat.html", "--overwrite")
    assert glomo(*words, "--overwrite", "--layer", 1, "--head", 2).code == 0
    fails(glomo(*words, "--overwrite", "--head", 3), "3")
    fails(glomo("draw", " \n", "--preset", preset, "--out", tmp_path / "x"), "text with words")
    fails(glomo("draw", "the cat", "--preset", "nowhere"), "preset", "nowhere")
    assert not (tmp_path / "x.html").exists()


def test_a_vocabulary_of_another_predictor_is_refused(
    glomo: Callable[..., Ended], preset: Path, tmp_path: Path
) -> None:
    from glomo_tf import TextUnits

    mixed = shutil.copytree(preset, tmp_path / "mixed")
    others = ["the cow saw the pig", "the pig ran"]  # As many words, and more words.
    for lines in (others, [*others, "a b c d e f"]):
        TextUnits.from_corpus(lines).save(mixed / "vocabulary.json")
        fails(glomo("export", "--preset", mixed, "--out", tmp_path / "x"), "vocabulary", "mixed")
    assert not (tmp_path / "x").exists()


def test_export(glomo: Callable[..., Ended], preset: Path, tmp_path: Path) -> None:
    words = ["export", "--preset", preset.parent, "--out", tmp_path / "served", "--json"]
    answer = json.loads(glomo(*words).out)
    assert answer["version"] == 1
    assert (tmp_path / "served" / "1" / "saved_model.pb").is_file()
    fails(glomo(*words[:-1], "--model-version", 1), "1")
    assert [path.name for path in (tmp_path / "served").iterdir()] == ["1"]
