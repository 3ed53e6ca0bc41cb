"""Which images the runs of a plan read: what their subsets draw, and all images for validation and test.

No other image needs a picture or features. A corpus and draws from it say which images these are, so their lists are
files of the workflow (``recap.data.subsets``); here is which draws a store must serve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.plan.paths import SUBSETS, Paths, Stores
from recap.plan.shared_stores import readers, sources
from recap.plan.submissions import VAL
from recap.settings.datasets import ConceptualDataset


def used_subsets(paths: Paths, store: Stores) -> list[str]:
    """Return the subsets of all runs that read a feature store, or one that is made from it.

    The whole training split is the same with every seed, and the first stands for all: no seed asks for more pictures.
    """
    plan = paths.plan
    found: dict[tuple[str, str, int | None], str] = {}
    sharing, trained = readers(plan, store.dataset, store.features), plan.trained()
    made_of = {features: sources(plan, features) for features in {run.features for run in trained}}
    for run in trained:
        if run.dataset in sharing and store.features in made_of[run.features]:
            whole = plan.get("subsets", run.subset).fraction == 1
            found.setdefault((run.dataset, run.subset, None if whole else run.seed), paths.subset(run))
    return sorted(found.values())


def sent_parts(paths: Paths, store: Stores) -> list[str]:
    """Return the parts of COCO whose pictures all need features, because a server is sent captions of them."""
    plan = paths.plan
    sharing = readers(plan, store.dataset, store.features)
    runs = [each.run for each in plan.submissions() if each.run.dataset in sharing]
    return [VAL] if any(store.features in sources(plan, run.features) for run in runs) else []


def corpora_of(paths: Paths, store: Stores, subsets: list[str]) -> list[str]:
    """Return the corpora that a list of images is made from: of the data sets that read the store, and of subsets."""
    drawn_from = {str(Path(file).parents[2] / "corpus.parquet") for file in subsets}
    return sorted({*paths.corpora(store), *drawn_from})


def not_fewer(wanted: list[str], recorded: list[str]) -> list[str]:
    """Return the subsets that a list of images was made from, if it serves these, too; else these.

    So a plan of one row, or of fewer tables, leaves lists and stores as they are.
    """
    before = sorted({file for file in recorded if Path(file).parent.parent.name == SUBSETS and Path(file).exists()})
    return before if set(wanted) <= set(before) else wanted


def web_draws(paths: Paths, survivors: str) -> dict[str, Any]:
    """Return by data set what the runs of a plan draw from a list of web pictures.

    Args:
        paths: of the plan.
        survivors: the list of fetched pictures of the training split.

    Returns:
        What `recap data wanted` takes as its draws; empty where all pictures are fetched.
    """
    found: dict[str, Any] = {}
    for name in paths.plan.datasets():
        settings = paths.plan.get("datasets", name)
        if not isinstance(settings, ConceptualDataset) or settings.survival is None:
            continue
        if paths.outside(settings.training_pictures()) == survivors:
            runs = sorted({(run.subset, run.seed) for run in paths.plan.trained() if run.dataset == name})
            draws = [paths.plan.spec("subsets", subset) | {"seed": seed} for subset, seed in runs]
            own = settings.model_dump(include={"seed", "survival"})
            found[name] = {"held_out": settings.val_pairs, "draws": draws, **own}
    return found


def tsv_of_draws(paths: Paths, survivors: str) -> str:
    """Return the TSV that web pictures are drawn from."""
    return paths.outside(paths.plan.get("datasets", next(iter(web_draws(paths, survivors)))).train)
