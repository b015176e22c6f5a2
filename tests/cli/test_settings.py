"""Settings from the command line and from mappings: types, near matches, one-line errors."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf.errors import UserError
from glomo_tf.settings import as_dict, differences, near_matches, override, type_name


@dataclasses.dataclass(frozen=True)
class Settings:
    width: int = 128
    learning_rate: float = 4e-3
    products: bool = True
    source: str = "python:docs"
    sparsity: Literal["relu", "query_relu", "top_k"] = "query_relu"
    labels: tuple[int, ...] = (500, 2000)
    length: tuple[int, int] = (32, 64)
    vectors: str | None = None
    limit: int | None = None
    rate: float | Literal["auto"] = "auto"
    num_heads: int = 4

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"Expected `width` to be positive.\nReceived: width={self.width}.")


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ("width=256", "width", 256),
        ("width=1_024", "width", 1024),
        ("learning_rate=1e-2", "learning_rate", 0.01),
        ("learning_rate=1", "learning_rate", 1.0),
        ("learning-rate=0.5", "learning_rate", 0.5),
        ("products=no", "products", False),
        ("products=TRUE", "products", True),
        ("source=text:a=b.txt", "source", "text:a=b.txt"),
        ("source=", "source", ""),
        ("sparsity=TOP_K", "sparsity", "top_k"),
        ("labels=5", "labels", (5,)),
        ("labels=5,", "labels", (5,)),
        ("labels=(5, 6,7)", "labels", (5, 6, 7)),
        ("labels=", "labels", ()),
        ("length=8,16", "length", (8, 16)),
        ("vectors=none", "vectors", None),
        ("vectors=glove.txt", "vectors", "glove.txt"),
        ("limit=None", "limit", None),
        ("limit=0", "limit", 0),
        ("rate=auto", "rate", "auto"),
        ("rate=0.25", "rate", 0.25),
    ],
)
def test_text_is_read_by_the_type_of_the_field(change: str, name: str, value: object) -> None:
    changed = override(Settings(), [change])
    assert getattr(changed, name) == value
    assert type(getattr(changed, name)) is type(value)
    assert dataclasses.replace(changed, **{name: getattr(Settings(), name)}) == Settings()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("widht=3", ["widht", "Did you mean width?"]),
        ("heads=3", ["heads", "Did you mean num_heads?"]),
        ("zzz=3", ["zzz", "There are: width, learning_rate"]),
        ("width", ["name=value", "'width'"]),
        ("=3", ["name=value"]),
        ("width=three", ["width", "a whole number", "width=three"]),
        ("width=1.5", ["a whole number", "width=1.5"]),
        ("learning_rate=nan", ["finite"]),
        ("learning_rate=inf", ["finite"]),
        ("products=2", ["true or false"]),
        ("sparsity=querry_relu", ["one of relu, query_relu, top_k", "Did you mean query_relu"]),
        ("labels=1,x", ["commas", "labels=1,x"]),
        ("length=1,2,3", ["2 items, not 3"]),
        ("limit=x", ["a whole number or none"]),
        ("width=0", ["`width` to be positive", "width=0"]),
    ],
)
def test_errors_are_one_line_that_names_what_was_received(change: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        override(Settings(), [change])
    message = str(caught.value)
    assert "\n" not in message
    assert "Expected" in message
    for word in words:
        assert word in message


def test_a_setting_given_twice_is_an_error() -> None:
    with pytest.raises(UserError, match="width twice"):
        override(Settings(), ["width=1", "width=2"])


def test_mappings_are_checked_too() -> None:
    changed = override(Settings(), {"labels": [7], "learning_rate": 1, "limit": 3})
    assert (changed.labels, changed.learning_rate, changed.limit) == ((7,), 1.0, 3)
    assert type(changed.learning_rate) is float
    for wrong in ({"width": "3"}, {"width": True}, {"labels": 7}, {"sparsity": "x"}, {"nope": 1}):
        with pytest.raises(UserError):
            override(Settings(), wrong)


plain_settings = st.builds(
    Settings,
    width=st.integers(1, 10**12),
    learning_rate=st.floats(allow_nan=False, allow_infinity=False),
    products=st.booleans(),
    # Blanks around a value are not kept, and `none` is no text where nothing is allowed.
    source=st.text().map(str.strip),
    sparsity=st.sampled_from(["relu", "query_relu", "top_k"]),
    labels=st.lists(st.integers()).map(tuple),
    length=st.tuples(st.integers(), st.integers()),
    limit=st.none() | st.integers(),
    rate=st.just("auto") | st.floats(allow_nan=False, allow_infinity=False),
)


@given(plain_settings)
def test_every_setting_survives_its_text_and_its_json(settings: Settings) -> None:
    values = as_dict(settings)
    texts = [
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in values.items()
    ]
    assert override(Settings(), texts) == settings
    assert override(Settings(), values) == settings
    assert differences(settings, values) == []


@given(st.text(), st.text())
def test_no_text_gives_anything_but_a_setting_or_a_one_line_error(name: str, value: str) -> None:
    for change in (f"{name}={value}", f"width={value}", f"length={value}", f"rate={value}"):
        error = None
        try:
            changed = override(Settings(), [change])
        except UserError as caught:
            error = str(caught)
        if error is None:
            assert math.isfinite(changed.width)
        else:
            assert len(error.splitlines()) == 1


def test_differences_name_what_changed() -> None:
    kept = as_dict(Settings()) | {"width": 64, "gone": 1}
    del kept["source"]
    assert differences(Settings(), kept) == [
        "width: 64 -> 128",
        "source: (absent) -> python:docs",
        "gone: 1 -> (absent)",
    ]


def test_type_names_are_plain_words() -> None:
    assert type_name(tuple[int, int]) == "with commas between: a whole number, a whole number"
    assert type_name(bool) == "true or false"
    with pytest.raises(TypeError, match="plain values"):
        type_name(dict[str, int])


def test_near_matches_fall_back_to_all_names() -> None:
    assert near_matches("sentimnet", ["sentiment", "inference"]) == "Did you mean sentiment?"
    assert near_matches("q", ["sentiment", "inference"]) == "There are: sentiment, inference."
