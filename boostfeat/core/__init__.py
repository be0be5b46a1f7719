"""Foundations of all packages: arrays and kernels, files, errors, options. Imports nothing of boostfeat."""
