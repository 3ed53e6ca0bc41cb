"""One architecture a file, each behind the interface of `recap.models.base`."""
