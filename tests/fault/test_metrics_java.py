"""Java that shifts lines, hangs, dies or talks nonsense: captions keep their ids.

A metric is "not run", never 0.
"""

import json
import os
import random
import subprocess
import time
import zipfile

import pytest

from helpers.refusals import refused
from recap.core.errors import MetricError
from recap.metrics import coco, meteor, spice
from recap.metrics import java as programs
from recap.metrics import scores as scoring
from recap.metrics.base import Tokenized
from recap.metrics.coco import ptb_tokenize
from recap.metrics.java import java_executable
from recap.metrics.scores import score
from recap.metrics.spice import MODEL_JARS

LINE_ENDS = [
    "\r",
    "\n",
    "\r\n",
    "\v",
    "\f",
    "\x85",
    "\u2028",
    "\u2029",
    "\x00",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x1f",
]
NASTY = [
    *LINE_ENDS,
    "|||",
    "😀",
    "\ud83d",
    "é",
    "\u00a0",
    "\u200b",
    "\ufeff",
    "\u202e",
    "\u0301",
    "<br",
    ">",
    "<p>",
]
NASTY += [
    "&#10;",
    "&#13;",
    "&amp;",
    "U.S.",
    "...",
    "'",
    '"',
    "(",
    "½",
    "http://a.b/c?d",
    "1-800-555-1234",
    "$",
    "\\",
]
NASTY += [
    "\\n",
    "<!--",
    "-->",
    "{",
    "]]>",
    "\t",
    "\x1b[2J",
    "--",
    "a@b.cd",
    "No.",
    "Mr.",
    "e.g.",
    "_",
    "~",
    "`",
]
REFERENCES = {1: ["a dog runs", "the dog is running"], 2: ["a red car", "one red car stands"]}
HYPOTHESES = {1: "a dog runs fast", 2: "a car"}


def fake_java(path, body):
    """A program in Java's place: METEOR does `body`, everything else runs the real one."""
    path.write_text(
        f'#!/bin/sh\ncase "$*" in *meteor*) {body};; *) exec "{java_executable()}" "$@";; esac\n'
    )
    path.chmod(0o755)
    return path


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_ten_thousand_nasty_captions_keep_their_place():
    random_ = random.Random(8)
    captions = []
    for number in range(10_000):
        parts = random_.choices([*NASTY, "word", "Dog", " ", " "], k=random_.randint(0, 7))
        captions.append(f"id{number}x " + "".join(parts) + f" end{number}x")
    captions[17] = captions[4_000] = captions[-1] = "\r\u2028"
    lines, others = ptb_tokenize(captions, captions[:3], java=java_executable())
    assert others == lines[:3]
    assert len(lines) == len(captions)
    for number, line in enumerate(lines):
        words = line.split(" ")
        expected = [""] if number in (17, 4_000, 9_999) else [f"id{number}x", f"end{number}x"]
        assert [words[0], words[-1]][: len(expected)] == expected, (captions[number], line)


@pytest.mark.parametrize("char", ["\r", "\u2028"])
def test_a_shifted_line_is_noticed_even_if_sanitizing_were_lost(monkeypatch, char):
    monkeypatch.setattr(coco, "sanitize", lambda caption: caption)
    with refused(MetricError, "PTB tokenizer", "3 lines", "2 captions"):
        ptb_tokenize([f"a dog{char}runs", "a cat"], java=java_executable())


def test_a_hung_meteor_is_stopped_and_the_other_metrics_stay(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    java = fake_java(tmp_path / "java", f"echo $$ > {pid}; sleep 600")
    monkeypatch.setattr(scoring, "java_executable", lambda: java)
    monkeypatch.setattr(
        coco, "tokenize_captions", lambda *_, **__: Tokenized(REFERENCES, HYPOTHESES, "ptb")
    )
    # it takes seconds, and this Java reads no table
    monkeypatch.setattr(meteor, "write_matching", lambda *_: None)
    monkeypatch.setattr(programs, "LIMIT", 2)
    start = time.monotonic()
    scores = score(REFERENCES, HYPOTHESES, metrics=["BLEU", "METEOR", "ROUGE-L"])
    assert time.monotonic() - start < 2 * 2
    assert scores.corpus["METEOR"] is None and "METEOR" not in scores.not_run
    assert "2 s" in scores.failed["METEOR"]
    assert scores.corpus["BLEU-1"] is not None and scores.corpus["ROUGE-L"] is not None
    assert gone(int(pid.read_text()))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("echo no memory left >&2; exit 3", ["code 3", "no memory left"]),
        ("kill -9 $$", ["code -9"]),
        ("yes nonsense", ["'nonsense'"]),
    ],
)
def test_a_broken_meteor_gives_a_reason(tmp_path, monkeypatch, body, named):
    java = fake_java(tmp_path / "java", body)
    monkeypatch.setattr(scoring, "java_executable", lambda: java)
    scores = score(REFERENCES, HYPOTHESES, metrics=["METEOR", "ROUGE-L"])
    assert scores.corpus["METEOR"] is None and "METEOR" not in scores.not_run
    assert all(each in scores.failed["METEOR"] for each in ["METEOR", *named])
    assert scores.corpus["ROUGE-L"] is not None


SCORES = {"BLEU-1": 0.7054014371737114, "METEOR": 0.36007064431763813}


def scored():
    scores = score(REFERENCES, HYPOTHESES, metrics=["BLEU", "METEOR"])
    assert not scores.failed
    return {name: scores.corpus[name] for name in SCORES}


@pytest.mark.parametrize(
    ("variable", "options"),
    [
        ("JAVA_TOOL_OPTIONS", "-Duser.language.format=de -Duser.country.format=DE"),
        ("_JAVA_OPTIONS", "-Duser.language=tr -Dfile.encoding=ISO-8859-9"),
    ],
)
def test_options_of_java_in_the_environment_change_no_score(variable, options, monkeypatch):
    monkeypatch.setenv(variable, options)
    assert scored() == pytest.approx(SCORES, abs=1e-12)


@pytest.mark.parametrize("locale", ["tr_TR"])
def test_a_locale_changes_no_score(locale, tmp_path, monkeypatch):
    folder = tmp_path / f"{locale}.UTF-8"
    try:
        subprocess.run(
            ["localedef", "-i", locale, "-f", "UTF-8", folder],
            capture_output=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine cannot make the locale {locale}: {error}")
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", folder.name)
    assert scored() == pytest.approx(SCORES, abs=1e-12)


def test_a_hung_tokenizer_is_stopped_and_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "LIMIT", 1)
    pid = tmp_path / "pid"
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho $$ > {pid}\nsleep 600\n")
    java.chmod(0o755)
    with refused(MetricError, "PTB tokenizer", "1 s"):
        ptb_tokenize(["a dog"], java=java)
    assert gone(int(pid.read_text()))


def test_a_java_that_cannot_start_is_one_sentence(tmp_path):
    (tmp_path / "java").write_text("not a program")
    with refused(MetricError, "PTB tokenizer", "Permission denied"):
        ptb_tokenize(["a dog"], java=tmp_path / "java")


def test_a_scorer_that_raises_costs_only_its_own_score(monkeypatch):
    monkeypatch.setattr(scoring, "java_executable", lambda: None)
    # Nothing but punctuation in every reference:
    # pycocoevalcap's CIDEr takes the maximum of nothing.
    scores = score({1: ["..."], 2: ["!"]}, {1: "a dog", 2: ""}, metrics=["CIDEr", "BLEU"])
    assert scores.corpus["CIDEr"] is None
    assert scores.not_run["CIDEr"].startswith("ValueError")
    assert scores.corpus["BLEU-1"] == pytest.approx(0, abs=1e-6)


@pytest.fixture
def spice_scores(tmp_path, monkeypatch):
    """Scores of SPICE that looks installed, with a program
    in Java's place that writes `result` where SPICE would."""
    (tmp_path / "lib").mkdir()
    for name, needed in MODEL_JARS.items():
        with zipfile.ZipFile(tmp_path / "lib" / name, "w") as jar:
            jar.writestr(needed, "")
    java = tmp_path / "java"
    java.write_text(
        f'#!/bin/sh\nwhile [ "$1" != -out ]; do shift; done\ncp {tmp_path}/result.json "$2"\n'
    )
    java.chmod(0o755)
    monkeypatch.setattr(spice, "package_folder", lambda part: tmp_path)
    monkeypatch.setattr(scoring, "java_executable", lambda: java)
    monkeypatch.setattr(
        coco, "tokenize_captions", lambda *_, **__: Tokenized(REFERENCES, HYPOTHESES, "ptb")
    )

    def run(result):
        (tmp_path / "result.json").write_text(json.dumps(result))
        return score(REFERENCES, HYPOTHESES, metrics=["SPICE"])

    return run


def item(image_id, f):
    return {"image_id": image_id, "scores": {"All": {"pr": 0.5, "re": 0.5, "f": f}}}


def test_scores_of_spice_go_to_their_images(spice_scores):
    scores = spice_scores([item(2, 0.1), item(1, 0.3)])
    assert scores.per_image["SPICE"] == {1: 0.3, 2: 0.1}
    assert scores.corpus["SPICE"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ([item(1, 0.3)], "image 2"),
        ([item(1, 0.3), item(2, float("nan"))], "image 2"),
        ({"wrong": 1}, "TypeError"),
    ],
)
def test_a_spice_without_numbers_is_an_error(spice_scores, result, named):
    scores = spice_scores(result)
    assert scores.corpus["SPICE"] is None and named in scores.failed["SPICE"]


def test_spice_without_java_fails_and_without_models_is_not_run(
    spice_scores, tmp_path, monkeypatch
):
    monkeypatch.setattr(scoring, "java_executable", lambda: None)
    assert "Java" in spice_scores([]).failed["SPICE"]
    models = tmp_path / "lib" / "stanford-corenlp-3.6.0-models.jar"
    models.unlink()
    scores = spice_scores([])
    # published with a run, so without a folder of this machine
    said = scores.not_run["SPICE"]
    assert models.name in said and str(models.parent) not in said and not scores.failed
    with zipfile.ZipFile(models, "w") as jar:  # whole, but not what it is called
        jar.writestr("noise", "")
    said = spice_scores([item(1, 0.3), item(2, 0.1)]).failed["SPICE"]
    assert str(models) in said and ".tagger" in said and "inputs folder" in said
    models.write_bytes(models.read_bytes()[:-10])
    assert f"{models}: is damaged" in spice_scores([]).failed["SPICE"]
