"""The commands of a study, one after the other, as somebody with captions of their own types
them."""

from helpers.studies import ROOT, write_captions, write_world
from recap.cli import main


def test_from_captions_to_a_table(tmp_path, monkeypatch):
    write_world(tmp_path, 30)
    for system in ("transformer", "acf"):
        write_captions(
            tmp_path / f"{system}.json", {image: f"{system[0]} {image}" for image in range(30)}
        )
    monkeypatch.chdir(tmp_path)
    words = [
        "--study",
        "recap/objects",
        "--params",
        str(ROOT / "params"),
        "--corpus",
        "corpus.parquet",
    ]
    captions = ["demo/transformer=transformer.json", "demo/acf=acf.json"]
    main(["study", "sheets", *words, "--images", "photos", "--out", "s", "--captions", *captions])
    main(["study", "simulate", "--sheets", "s/sheets.json", "--out", "simulated.json"])
    main(
        [
            "study",
            "import",
            "--sheets",
            "s/sheets.json",
            "--responses",
            "simulated.json",
            "--out",
            "responses.json",
        ]
    )
    analyse = ["study", "analyse", "--sheets", "s/sheets.json", "--responses", "responses.json"]
    main([*analyse, "--statistics", "statistics.json", "--out", "tables", "--name", "objects"])
    text = (tmp_path / "tables" / "objects.md").read_text()
    assert (
        "SIMULATED raters" in text
        and "Q2. Does the caption describe things not in the image?" in text
    )
    assert {file.suffix for file in (tmp_path / "tables").glob("objects.*")} == {
        ".tex",
        ".csv",
        ".html",
        ".md",
    }
