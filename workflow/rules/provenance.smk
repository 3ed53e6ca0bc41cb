"""What Snakemake knows of finished files travels with them: given back before a run, written beside them after one."""

from workflow.provenance import Keeper

# The folders that DVC keeps. Each has a separate file, because the outputs of two stages may not overlap.
KEEPER = Keeper(
    homes=[f"{R}/{phase}" for phase in ("data", "features", "runs", "scores")] + [REPORTS, f"{R}/statistics"],
    loose=[f"{R}/summary.json", f"{R}/curves.csv"],
    inputs=PROFILE.inputs,
    note=Path(WORK) / "hashes.json",
)

if workflow.is_main_process:
    try:
        KEEPER.restore()
    except RecapError as error:
        refuse(str(error))
