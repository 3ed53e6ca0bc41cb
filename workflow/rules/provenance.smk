"""Snakemake's records of finished files travel with them: restored before a run, copied beside them after one."""

from recap.core.errors import RecapError

from workflow.links import make_writable
from workflow.provenance import ProvenanceStore

# The folders that DVC keeps. Each has a separate file, because the outputs of two stages may not overlap.
PROVENANCE = ProvenanceStore(
    folders=[f"{R}/{phase}" for phase in ("data", "features", "runs", "scores")] + [REPORTS, f"{R}/statistics"],
    single_files=[f"{R}/summary.json", f"{R}/curves.csv"],
    inputs=PROFILE.inputs,
)

if workflow.is_main_process:
    make_writable([R, REPORTS])
    try:
        PROVENANCE.restore()
    except RecapError as error:
        refuse(str(error))
