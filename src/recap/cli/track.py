"""``recap track``: runs and tables in MLflow."""

from __future__ import annotations

from recap.cli.arguments import Arguments, calls, paths
from recap.cli.parser import Commands, command
from recap.core.log import log


def add_track(commands: Commands) -> None:
    """Add the commands of this group."""
    store = "SQLite file of the store"
    parser = command(
        commands,
        "init",
        calls("recap.share.tracking_store:init_store", "store"),
        purpose="prepare the MLflow store",
        example="recap track init --store mlflow/mlflow.db",
    )
    paths(parser, store=store)
    parser = command(
        commands,
        "publish",
        calls("recap.share.tracking_store:publish", "profile results reports store out"),
        purpose="list all runs and tables of a profile in MLflow",
        example="""
            recap track publish --profile demo --results results/demo --reports reports/demo \\
              --store mlflow/mlflow.db --out mlflow/demo.published.json
        """,
    )
    parser.add_argument("--profile", required=True, metavar="NAME", help="name of the profile")
    paths(parser, "results", reports="folder reports/<profile>", store=store, out="JSON with what was published")
    parser = command(
        commands,
        "addresses",
        _addresses,
        purpose="print the addresses of the runs in MLflow for `make ui`",
        example="recap track addresses --store mlflow/mlflow.db",
    )
    paths(parser, store=store)
    parser.add_argument("--port", type=int, default=5000, help="port of the server (default: 5000)")


def _addresses(a: Arguments) -> None:
    from recap.share.tracking_store import run_list_urls

    for experiment, address in run_list_urls(store=a.store, port=a.port).items():
        print(f"runs on {experiment}: {address}")
    log.info(
        "if a page opens as 'GenAI', choose 'Model training' in its sidebar; close the assistant: MLflow remembers both"
    )
