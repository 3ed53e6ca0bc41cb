"""``python -m recap``."""

import os

from recap.core.process import warm_job

if warm_job.VARIABLE in os.environ:
    warm_job.main()
else:
    from recap.cli import main

    main()
