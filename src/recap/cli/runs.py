"""``recap runs`` and ``recap tables``: finished runs and tables in the terminal."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, paths
from recap.cli.params import print_columns
from recap.cli.parser import Commands, Parser, command
from recap.core.errors import UnknownName, nearest


def add_runs(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "ls",
        _list,
        purpose="list the finished runs of all profiles: sizes, hours, scores",
        example="recap runs ls\nrecap runs ls demo",
    )
    parser.add_argument(
        "part", nargs="?", default="", metavar="TEXT", help="only runs with this text in their key or name"
    )
    _add_results(parser)
    parser = command(
        commands,
        "show",
        _show,
        purpose="show a run: scores with their signature, numbers of the training, every setting",
        example="recap runs show results/demo/runs/scenes/full/scenes_grid/transformer@demo/seed-1/scst",
    )
    parser.add_argument("run", metavar="RUN", help="folder, key or name of a run, or a part that only one has")
    _add_results(parser)
    parser = command(
        commands,
        "compare",
        _compare,
        purpose="compare two runs: settings that differ, and scores with p over the same images",
        example="recap runs compare demo/scenes/full/scenes_grid/transformer@demo/seed-1/scst 'ACF seed 1 scst'",
    )
    for name in ("first", "second"):
        parser.add_argument(name, metavar="RUN", help="as for `recap runs show`")
    _add_results(parser)

    parser = command(
        commands,
        "gallery",
        _gallery,
        purpose="a page with every run's caption of test images, beside photo and references, filtered by difference",
        example="recap runs gallery 'ACF seed 1 xe' 'ACF seed 1 scst' --out gallery.html",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="as for `recap runs show`; all of one data set")
    parser.add_argument(
        "--images",
        type=Path,
        nargs="*",
        metavar="PATH",
        help="folders or zips with the photos (the data set's own, if drawn)",
    )
    parser.add_argument("--count", type=int, default=200, metavar="N", help="size of the random sample of images (200)")
    _add_results(parser)
    paths(parser, out="the page (HTML)")


def add_tables(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "show",
        _show_table,
        purpose="print a finished table",
        example="recap tables show mine/t3\nrecap tables show mine/t3 --profile demo",
    )
    parser.add_argument(
        "table", nargs="?", metavar="TABLE", help="name of a table, as in params (mine/t3); without, all are listed"
    )
    parser.add_argument("--profile", metavar="NAME", help="profile that made it (default: all that did)")
    parser.add_argument(
        "--reports", type=Path, default=Path("reports"), metavar="PATH", help="folder of the reports (reports)"
    )


def _add_results(parser: Parser) -> None:
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="PATH", help="folder of the profiles (results)"
    )


def _list(a: Arguments) -> None:
    from recap.share.run_lists import finished_runs, run_table

    found = [run for run in finished_runs(a.results) if a.part in run.record.key or a.part in run.record.name]
    print_columns(run_table(found))


def _show(a: Arguments) -> None:
    from recap.share.run_lists import describe_run, find_run, finished_runs

    print("\n".join(describe_run(find_run(finished_runs(a.results), a.run))))


def _compare(a: Arguments) -> None:
    from recap.share.run_lists import compare_runs, find_run, finished_runs

    runs = finished_runs(a.results)
    print("\n".join(compare_runs(find_run(runs, a.first), find_run(runs, a.second))))


def _gallery(a: Arguments) -> None:
    from recap.core.errors import ConfigError
    from recap.reporting.gallery import write_gallery
    from recap.settings.datasets import PICTURES
    from recap.share.run_lists import find_run, finished_runs

    if a.count < 1:
        raise ConfigError("--count: must be 1 or more")
    every = finished_runs(a.results)
    runs = [find_run(every, name) for name in a.runs]
    data = {run.record.tags["dataset"] for run in runs}
    if len(data) > 1:
        raise ConfigError(f"these runs are of the data sets {', '.join(sorted(data))}; name runs of one")
    systems: dict[str, Path] = {}
    for run in runs:
        if run.scores is None:
            raise ConfigError(f"{run.record.key}: was not evaluated, so it has no captions; leave it out")
        same = run.record.name in systems
        systems[run.record.key if same else run.record.name] = run.scores
    folder = runs[0].results / "data" / data.pop()
    own = folder / PICTURES
    images = a.images if a.images is not None else [own] if own.exists() else []
    write_gallery(systems=systems, corpus=folder / "corpus.parquet", images=images, count=a.count, out=a.out)


def _show_table(a: Arguments) -> None:
    pages = sorted(page for page in a.reports.glob(f"{a.profile or '*'}/tables/*.md") if not page.match("*.paper.md"))
    if not pages:
        raise UnknownName(f"{a.reports}: no finished table yet")
    if a.table is None:
        print_columns([[page.stem, page.parts[-3]] for page in pages])
        return
    chosen = [page for page in pages if page.stem == a.table.replace("/", "_")]
    if not chosen:
        hint = nearest(a.table, {page.stem for page in pages})
        raise UnknownName(f"there is no finished table {a.table!r}; {hint}")
    for page in chosen:
        if len(chosen) > 1:
            print(f"{page}:\n")
        print(page.read_text(encoding="utf-8"))
