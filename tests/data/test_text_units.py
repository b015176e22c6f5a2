"""TextUnits: the splitting rule by hand, any text, one result everywhere, checked files."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf.data import vocabulary
from glomo_tf.data.splitting import split_whitespace, split_words
from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import UserError

WORDS = ["<pad>", "<unk>", "<number>", "the", "cat", "n't", "do", "!", "привет", "é", "café", "日"]
HARD = [
    "ПРИВЕТ привет",
    "É é e\u0301 CAFE\u0301",
    "ﬁne 日本語",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd",
    "שלום \u200fمرحبا",
    b"the \xff\xfecat \xc3",
    "",
    "   ",
    "\n\t\u00a0\u3000",
    "!!!",
    "the\x00cat\x01do",
    "\ufeffthe \u00adcat",
    "\ud800 the",
]


@pytest.fixture(scope="module")
def units() -> TextUnits:
    return TextUnits(WORDS, range(len(WORDS)))


def tokens(text: str) -> list[str]:
    return [token.decode() for token in split_words(tf.constant([text])).to_list()[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop, he'd've said.", "Do n't stop , he 'd 've said ."),
        ("CAN'T we'RE I'm it's they'll", "CA N'T we 'RE I 'm it 's they 'll"),
        ("couldn't've", "could n't 've"),
        ("O'Brien's o'clock rock'n'roll", "O'Brien 's o'clock rock'n'roll"),
        ("dogs' 'tis", "dogs ' ' tis"),
        ("‘Société’ “quoted” don’t", "' Société ' \" quoted \" do n't"),
        ("l'dé d'été", "l'dé d'été"),
        ("$1,234.50, 3.5 1999.", "$ 1,234.50 , 3.5 1999 ."),
        ("10:30 3/4 5%", "10 : 30 3 / 4 5 %"),
        ("1990s 20th mp3", "1990s 20th mp3"),
        ("U.S. e.g. Mr. Hall.", "U.S. e.g. Mr . Hall ."),
        ("well-known -- a...b", "well - known -- a ... b"),
        ("(a_b) [c]", "( a_b ) [ c ]"),
        ("日本語abc", "日 本 語 abc"),
        ("हिन्दी cafe\u0301", "हिन्दी cafe\u0301"),
        ("🇩🇪🇫🇷 👍🏽👩\u200d👧", "🇩🇪 🇫🇷 👍🏽 👩\u200d👧"),
        ("a\u200bb c\u00add", "a b cd"),
    ],
)
def test_words_splitter_by_hand(text, expected):
    assert tokens(text) == expected.split(" ")


def test_whitespace_splitter_cuts_at_every_blank_and_nowhere_else():
    rows = split_whitespace(tf.constant(["don't  1,000\u00a0(a)\u3000b\n"])).to_list()
    assert rows == [[b"don't", b"1,000", b"(a)", b"b"]]


def test_ids_by_hand(units):
    ids = units(["The CAT don't 1,000 3.5 dog!", "", "cat"])
    assert ids.dtype == tf.int32
    assert ids.numpy().tolist() == [
        [3, 4, 6, 5, 2, 2, 1, 7],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [4, 0, 0, 0, 0, 0, 0, 0],
    ]


def test_row_44_unicode_has_documented_ids(units):
    assert units.ragged(HARD[:5]).to_list() == [
        [8, 8],  # Cyrillic is put into lower case
        [9, 9, 9, 10],  # composed and decomposed spellings are one word
        [1, 11, 1, 1],  # a ligature is a letter of its own; each Chinese character is a unit
        [1, 1],  # an emoji with its joiners and modifiers is one unit
        [1, 1],
    ]
    assert units.ragged(HARD[5:6]).to_list() == [[3, 1, 1, 4, 1]]  # each bad byte is one unit
    assert units.ragged(HARD[10:]).to_list() == [[3, 4, 6], [3, 4], [1, 1, 1, 3]]


def test_row_45_texts_without_words_are_rows_of_padding(units):
    assert units(["", "   ", "\n"]).numpy().tolist() == [[0], [0], [0]]
    assert units(["!!!", "?"]).numpy().tolist() == [[7, 7, 7], [1, 0, 0]]
    assert units([]).shape == (0, 1)


def test_row_47_ragged_tokens_are_looked_up_and_other_shapes_are_named(units):
    ragged = tf.ragged.constant([["The", "1,000", "É"], [], ["dog"]])
    assert units(ragged).numpy().tolist() == [[3, 2, 9], [0, 0, 0], [1, 0, 0]]
    assert units.lookup_tokens([["The", "cat’s"], []]).to_list() == [[3, 1], []]
    for wrong in ("a single text", tf.constant("one"), [["a"]], [1, 2], ["a", None]):
        with pytest.raises(UserError, match=r"Expected texts as strings \[B\]"):
            units(wrong)


def test_tokens_keep_case_and_numbers_and_stand_at_their_units(units):
    texts = ["The CAT don’t 1,000", ""]
    assert units.tokens(texts).to_list() == [[b"The", b"CAT", b"do", b"n't", b"1,000"], []]
    assert units.word_ids(texts).to_list() == [[0, 1, 2, 3, 4], []]


def test_no_text_can_hold_padding_or_forge_it():
    units = TextUnits(WORDS, splitter="whitespace")
    assert units.ragged(["<pad> <unk> <number>"]).to_list() == [[1, 1, 2]]


@given(st.lists(st.one_of(st.text(max_size=40), st.binary(max_size=40)), max_size=5))
def test_any_text_has_one_id_a_token_and_no_padding_inside(texts):
    units = TextUnits(WORDS)
    dense = units(texts).numpy()
    lengths = units.tokens(texts).row_lengths().numpy()
    assert dense.shape == (len(texts), max([1, *lengths]))
    assert np.array_equal(dense > 0, np.arange(dense.shape[1]) < lengths[:, None])
    assert (dense < units.vocabulary_size).all()


@given(st.text(max_size=40))
def test_repeated_splitting_changes_nothing_where_no_mark_was_folded(text):
    once = tokens(text.encode("utf-8", "replace").decode())
    assert tokens(" ".join(once)) == [t for token in once for t in tokens(token)]


def test_rows_27_and_44_same_ids_in_python_tf_data_and_a_saved_model(units, tmp_path):
    raw = [
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in HARD
    ]
    expected = units(HARD).numpy()
    assert np.array_equal(units(raw), expected)
    data = tf.data.Dataset.from_tensor_slices(raw).batch(len(raw)).map(units)
    assert data.element_spec.dtype == tf.int32
    assert np.array_equal(next(iter(data)), expected)

    class Served(tf.Module):
        def __init__(self):
            super().__init__()
            self.text_units = units

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, texts):
            return {"units": self.text_units(texts)}

    module = Served()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    np.save(tmp_path / "texts.npy", np.array(raw, dtype=object), allow_pickle=True)
    code = f"""
        import sys
        sys.modules["glomo_tf"] = None  # cannot be imported
        import numpy as np, tensorflow as tf
        model = tf.saved_model.load({str(tmp_path / "model")!r})
        texts = np.load({str(tmp_path / "texts.npy")!r}, allow_pickle=True).tolist()
        ids = model.signatures["serving_default"](tf.constant(texts))["units"]
        np.save({str(tmp_path / "ids.npy")!r}, ids)
        assert "tensorflow_text" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    assert np.array_equal(np.load(tmp_path / "ids.npy"), expected)


def test_very_long_token_and_very_long_text_and_max_units(units):
    long = ["a" * 10**6, "cat " * 10**5]
    assert units.ragged(long).row_lengths().numpy().tolist() == [1, 10**5]
    short = TextUnits(WORDS, max_units=3)
    assert short(["the cat do the cat", "cat"]).numpy().tolist() == [[3, 4, 6], [4, 0, 0]]
    assert short.tokens(["the cat do the"]).to_list() == [[b"the", b"cat", b"do"]]
    assert short.ragged(["the cat do the"], whole=True).to_list() == [[3, 4, 6, 3]]


def test_decode(units):
    assert units.decode([3, 4, 2, 0, 0]) == "the cat <number>"
    assert units.decode(units(["the cat", ""])) == ["the cat", ""]
    with pytest.raises(UserError, match="Expected ids from 0 to 11"):
        units.decode([12])


def test_from_corpus_orders_by_count_then_by_code_point():
    lines = ["b a 7 8,5", b"a c \xff", "É e\u0301 É"]
    units = TextUnits.from_corpus(lines, 100)
    assert units.words == ["<pad>", "<unk>", "<number>", "é", "a", "b", "c", "\ufffd"]
    assert units.counts == [0, 0, 2, 3, 2, 1, 1, 1]
    assert TextUnits.from_corpus(["z y x y"], 9).words[3:] == ["y", "x", "z"]
    smaller = TextUnits.from_corpus(lines, 5)
    assert smaller.words == ["<pad>", "<unk>", "<number>", "é", "a"]
    assert smaller.counts == [0, 3, 2, 3, 2]
    assert TextUnits.from_corpus(lines, 100, min_count=2).words[3:] == ["é", "a"]
    kept = TextUnits.from_corpus(lines, 100, keep={"a", "c", "e\u0301", "zebra"})
    assert kept.words[3:] == ["é", "a", "c"]
    assert kept.counts == [0, 2, 2, 3, 2, 1]


def test_from_corpus_reads_datasets_and_documents_alike():
    lines = ["the cat", "the dog", "a cat"]
    expected = TextUnits.from_corpus(lines, 50)
    flat = tf.data.Dataset.from_tensor_slices(lines)
    for corpus in (flat, flat.batch(2), (line for line in lines)):
        found = TextUnits.from_corpus(corpus, 50)
        assert (found.words, found.counts) == (expected.words, expected.counts)


def test_counting_in_many_batches_equals_one(monkeypatch):
    lines = [f"word{i % 7} word{i % 3}" for i in range(50)]
    once = TextUnits.from_corpus(lines, 50)
    monkeypatch.setattr(vocabulary, "_BATCH_TEXTS", 4)
    many = TextUnits.from_corpus(lines, 50)
    assert (once.words, once.counts) == (many.words, many.counts)


def test_counting_stays_bounded_and_forgets_the_rarest_first(monkeypatch):
    monkeypatch.setattr(vocabulary, "_MAX_DISTINCT", 10)
    monkeypatch.setattr(vocabulary, "_BATCH_TEXTS", 1)
    lines = ["often often seldom seldom"] * 5 + [f"x{i} y{i}" for i in range(30)]
    units = TextUnits.from_corpus(lines, 50)
    assert units.words[3:5] == ["often", "seldom"]
    assert units.counts[3:5] == [10, 10]
    assert units.vocabulary_size <= 13


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ([], {}, "Received: an empty corpus"),
        (["", "  ", "\n"], {}, "Received: an empty corpus"),
        (["word word", "Word"], {}, "Received: only 'word'"),
        (["a b"], {"min_count": 2}, "occur at least 2 times"),
        (["a b"], {"keep": {"c"}}, "are in `keep`"),
        (["a b"], {"vocabulary_size": 3}, "vocabulary_size=3"),
        (["a b"], {"vocabulary_size": "9"}, "vocabulary_size='9'"),
        (["a b"], {"min_count": 0}, "min_count=0"),
        (["a b"], {"splitter": "word"}, "splitter='word'"),
        (["a b"], {"max_units": 0}, "max_units=0"),
        (["a b"], {"splitter": "fastbert", "keep": {"a"}}, "Leave one out"),
        ("a b", {}, "Received: str"),
        (3, {}, "Received: int"),
        (["a", 3], {}, "Received: int as text number 1"),
        (tf.data.Dataset.range(3), {}, "Expected a tf.data.Dataset of strings"),
    ],
)
def test_from_corpus_refuses(lines, options, message):
    with pytest.raises(UserError) as caught:
        TextUnits.from_corpus(lines, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "counts", "message"),
    [
        (["a", "b"], None, "Expected the words to begin with"),
        ([*WORDS, "the"], None, "repeated words"),
        ([*WORDS, ""], None, "non-empty string"),
        (WORDS, [1], "1 counts, 12 words"),
        (WORDS, [-1] * 12, "at least 0"),
    ],
)
def test_constructor_refuses(words, counts, message):
    with pytest.raises(UserError, match=message):
        TextUnits(words, counts)


def test_save_and_load_keep_everything(units, tmp_path):
    saved = TextUnits(WORDS, range(len(WORDS)), splitter="whitespace", max_units=5)
    saved.save(tmp_path / "vocabulary.json")
    loaded = TextUnits.load(tmp_path / "vocabulary.json")
    for name in ("words", "counts", "splitter", "max_units", "fingerprint"):
        assert getattr(loaded, name) == getattr(saved, name)
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.json"]
    # What decides ids decides the fingerprint, and nothing else.
    assert saved.fingerprint != units.fingerprint
    assert TextUnits(WORDS).fingerprint == units.fingerprint
    assert TextUnits(WORDS, max_units=5).fingerprint == units.fingerprint
    assert TextUnits([*WORDS[:-1], "x"]).fingerprint != units.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "damaged or of another kind"),
        (lambda text: "", "damaged or of another kind"),
        (lambda text: "[1, 2]", "of another kind"),
        (lambda text: '{"words": []}', "of another kind"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "Install a newer glomo-tf"),
        (lambda text: text.replace('"cat"', '"cut"'), "fingerprint does not match"),
        (lambda text: text.replace('"splitter": "words"', '"splitter": "x"'), "is damaged"),
        (lambda text: text.replace('"counts": [0, ', '"counts": ['), "is damaged"),
        (lambda text: text.replace('"words": [', '"other": ['), "is damaged"),
        (lambda text: text.replace('"max_units": null', '"max_units": -1'), "is damaged"),
    ],
)
def test_load_refuses_damaged_foreign_and_newer_files(units, tmp_path, change, message):
    path = tmp_path / "vocabulary.json"
    units.save(path)
    changed = change(path.read_text("utf-8"))
    assert changed != path.read_text("utf-8")
    path.write_text(changed, "utf-8")
    with pytest.raises(UserError, match=message) as caught:
        TextUnits.load(path)
    assert str(path) in str(caught.value)


def test_load_without_file_and_save_to_a_place_that_is_none(units, tmp_path):
    with pytest.raises(UserError, match="Expected a readable JSON file"):
        TextUnits.load(tmp_path / "none.json")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Expected to write"):
        units.save(tmp_path / "file" / "vocabulary.json")


def test_a_failed_save_leaves_the_previous_file(units, tmp_path, monkeypatch):
    path = tmp_path / "vocabulary.json"
    units.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        TextUnits([*WORDS, "more"]).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in Path(tmp_path).iterdir()] == ["vocabulary.json"]
    assert json.loads(before)["words"] == WORDS
