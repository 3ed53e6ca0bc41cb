"""Whether the fast paths of this folder and the fast RAdam are taken; `RECAP_FAST=0` in the environment: plain torch.

Without them results agree up to rounding, but for dropout, which then draws torch's own random numbers.
"""

from __future__ import annotations

import os

_enabled = os.environ.get("RECAP_FAST", "1") != "0"


def fast() -> bool:
    """Return whether fast paths are taken."""
    return _enabled
