"""``recap data``: outside files, captions, vocabularies and cards."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from recap.cli.commands import Group
from recap.cli.options import above_0, mapping
from recap.core.errors import ConfigError

VERSIONS = Path("params/data_versions.csv")
RESOURCES = Path("resources")

DATA = Group("data", "get outside files; prepare captions, vocabularies and subsets")
List = Annotated[Path, f"list of the files ({VERSIONS})", {"flag": "--list"}]
Into = Annotated[Path, "the profile's `inputs` (resources)"]
Limit = Annotated[float | None, "most GiB that it may unpack to", "GIB"]
Name = Annotated[str, "name of the data set"]
ByHand = Annotated[Sequence[str], "as in the list, or a pattern", "NAME"]
Unpacked = Annotated[Sequence[str], "of the role `unpacked` in the list", "NAME"]


@DATA.command("recap data fetch", "recap data fetch 'coco/*2014.zip' --into resources")
def fetch(
    names: Annotated[Sequence[str], "as in the list, or a pattern: 'coco/*2014.zip'", "NAME"] = (),
    *,
    list_: List = VERSIONS,
    into: Into = RESOURCES,
    source: Annotated[
        Path | None, "a file or folder taken instead of the network", {"flag": "--from"}
    ] = None,
    workers: Annotated[int, "files at once (4)", above_0(int)] = 4,
    timeout: Annotated[
        float, "seconds without a byte before a new try (60)", "S", above_0(float)
    ] = 60,
) -> None:
    """Download outside files and verify them; without names, list them."""
    from recap.data.files.download import Transfer
    from recap.data.files.fetch import fetch_files
    from recap.settings.versions import choose, read_versions

    files = read_versions(list_)
    if not names:
        for file in files.values():
            size = "?" if file.bytes is None else f"{file.bytes / 2**30:.3f}"
            here = "here" if (into / file.name).exists() else ""
            checksum = file.algorithm or ("no hash" if file.urls else "own")
            about = file.licence if file.urls else file.note
            print(f"{here:7}{size:>8} GiB  {checksum:8}{file.name}  ({about})")
        return
    wanted = choose(files, names, list_)
    for result in fetch_files(
        wanted, into=into, source=source, workers=workers, transfer=Transfer(timeout=timeout)
    ):
        print(f"{result.path}: {result.how}, sha256 {result.sha256} (checked: {result.checked})")


@DATA.command("recap data by-hand 'iu_xray/*'")
def by_hand(names: ByHand = ("*",), *, list_: List = VERSIONS, into: Into = RESOURCES) -> None:
    """List the files that you must get by hand, with steps and license."""
    from recap.settings.versions import choose, read_versions

    for file in choose(read_versions(list_), names, list_):
        if not file.urls and file.archive is None and not file.name.startswith("hub/"):
            here = " (here)" if (into / file.name).exists() else ""
            print(f"{into / file.name}{here}: {file.licence}")
            for step in re.split(r"(?=\b\d\. )", file.note):
                if text := step.strip().rstrip(";:").strip():
                    print(f"  {text}")


@DATA.command("recap data spice --into resources")
def spice(*, list_: List = VERSIONS, into: Into = RESOURCES) -> None:
    """Download SPICE's parser models to where pycocoevalcap looks for them."""
    from recap.data.files.download import Transfer
    from recap.metrics.spice import install_spice_models
    from recap.settings.versions import read_versions

    for place in install_spice_models(read_versions(list_), into=into, transfer=Transfer()):
        print(place)


@DATA.command("recap data unpack bottom_up/trainval --into resources")
def unpack(
    names: Unpacked, *, list_: List = VERSIONS, into: Into = RESOURCES, limit_gb: Limit = None
) -> None:
    """Unpack the listed members of an archive; download it if it is missing."""
    from recap.data.files.download import Transfer
    from recap.data.files.fetch import fetch_files
    from recap.settings.versions import choose, read_versions

    files = read_versions(list_)
    for file in choose(files, names, list_):
        if file.archive is None or file.members is None:
            raise ConfigError(f"{list_}: {file.name!r} is not unpacked from an archive; fetch it")
        (archive,) = fetch_files([files[file.archive]], into=into, transfer=Transfer())
        _unpack(archive.path, into / file.name, file.members, limit_gb)


@DATA.command("recap data extract coco/val2014.zip --into resources/coco --members 'val2014/*.jpg'")
def extract(
    archive: Annotated[Path, "zip or tgz"],
    *,
    members: Annotated[str, "of the members; its leading folders are left out (*)", "GLOB"] = "*",
    limit_gb: Limit = None,
    into: Annotated[Path, "folder of the files"],
) -> None:
    """Unpack any zip or tgz, safely."""
    _unpack(archive, into, members, limit_gb)


def _unpack(archive: Path, into: Path, members: str, limit_gb: float | None) -> None:
    from recap.data.files.archives import unpack as unpack_archive

    limit = None if limit_gb is None else int(limit_gb * 2**30)
    print(f"{into}: {unpack_archive(archive, into=into, members=members, limit=limit)} files")


@DATA.command(
    """
        recap data corpus --name mine --inputs . --out results/mine \\
          --spec '{"kind": "karpathy", "annotations": "dataset.json", "images": ["photos"]}'
    """,
    spec="datasets:Dataset",
    calls="recap.data.corpus:build_corpus",
)
def corpus(
    *, name: Name, spec: Any, inputs: Path, out: Annotated[Path, "folder of corpus.parquet"]
) -> None:
    """Convert any data set to corpus.parquet."""


@DATA.command(
    """
        recap data vocabulary --corpus corpus.parquet --spec '{"min_count": 5}' \\
          --out vocabulary.json
    """,
    spec="datasets:VocabularyConfig",
)
def vocabulary(
    *,
    spec: Any,
    corpus: Path,
    out: Annotated[Path, "vocabulary.json"],
    inputs: Annotated[Path, "folder of a byte-pair tokenizer's files"] = Path(),
) -> None:
    """Build vocabulary.json from a corpus."""
    from recap.data.vocabulary import build_vocabulary

    built = build_vocabulary(corpus=corpus, rule=spec, inputs=inputs, out=out)
    print(f"{out}: {len(built)} ids, <pad>, <bos>, <eos> and <unk> among them")


@DATA.command(
    "recap data card --name mine --corpus corpus.parquet --out card.md",
    calls="recap.data.card:write_card",
)
def card(
    *,
    name: Name,
    corpus: Path,
    out: Annotated[Path, "the Markdown file"],
    counts: Annotated[
        Path | None, "Markdown list of what was left out on the way to the corpus"
    ] = None,
) -> None:
    """Write card.md of a corpus: counts, lengths, words."""


@DATA.command("""
        recap data wanted --tsv GCC-training.tsv --out wanted.txt \\
          --draws '{"conceptual": {"held_out": 5000, "seed": 0, "survival": 0.6, "draws": []}}'
    """)
def wanted(
    *,
    draws: Annotated[
        Any, "data set -> what is drawn from the TSV, or a file", "JSON", {"type": mapping}
    ],
    tsv: Annotated[Path, "one caption TAB url a line"],
    out: Annotated[Path, "numbers of rows, one a line"],
) -> None:
    """List the rows of a TSV of web pictures that some subsets need,
    for `conceptual-download --only`."""
    from recap.data.datasets.conceptual import read_tsv
    from recap.data.subsets import write_wanted
    from recap.settings.datasets import WebDraws
    from recap.settings.params import validate

    write_wanted(
        validate(dict[str, WebDraws], draws, "--draws"), rows=sum(1 for _ in read_tsv(tsv)), out=out
    )


@DATA.command("recap data overlap --corpus corpus.parquet --images photos.zip")
def overlap(
    *,
    corpus: Path,
    images: Annotated[Sequence[Path], "folders or zips: compare pictures as well"] = (),
) -> None:
    """Check that the splits of a corpus share no image."""
    from recap.data.card import check_overlap

    print(json.dumps(check_overlap(corpus=corpus, images=images)))


@DATA.command(
    "recap data conceptual-download --tsv GCC-1.1.0-Validation.tsv --out "
    "conceptual/images/validation"
)
def conceptual_download(
    *,
    tsv: Annotated[Path, "captions and urls, as published"],
    out: Annotated[Path, "folder of the pictures"],
    min_side: Annotated[
        int, "shorter side that larger pictures get, in pixels; 0: their own (384)"
    ] = 384,
    workers: Annotated[int, "requests at once (64)"] = 64,
    timeout: Annotated[float, "seconds per request (30)", "S"] = 30.0,
    only: Annotated[Path | None, "list of rows, a number per line from 0: fetch no others"] = None,
) -> None:
    """Download the pictures of a Conceptual Captions TSV."""
    from recap.data.datasets.conceptual_download import download

    records = download(
        tsv=tsv, out=out, min_side=min_side, workers=workers, timeout=timeout, only=only
    )
    print(json.dumps(records, indent=1))
