"""recap: reproduce image-captioning papers, honestly and fast.

`recap.load(RUN)` returns a trained run that captions photos; it is imported when it is first asked
for, because it brings torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recap.core.version import VERSION as __version__

if TYPE_CHECKING:
    from recap.share.captioner import PhotoCaptioner, load

__all__ = ["PhotoCaptioner", "__version__", "load"]


def __getattr__(name: str) -> Any:
    if name in ("load", "PhotoCaptioner"):
        from recap.share import captioner

        return getattr(captioner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
