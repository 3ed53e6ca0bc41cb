"""What every room shares: config, errors, atomic files, seeds, digests, progress."""
