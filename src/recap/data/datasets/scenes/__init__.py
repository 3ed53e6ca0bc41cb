"""The built-in data set: drawn scenes whose objects and relations are known."""
