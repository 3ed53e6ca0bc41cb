"""What a plan needs and costs before its first job: missing files and tools, disk, steps, hours."""
