"""A GPU that computes nothing, on which the CPU build of torch plays the ways of a real one."""
