"""What all packages share: errors, log, files, hashing, processes; it imports none of them."""
