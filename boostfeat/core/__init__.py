"""What everything stands on: arrays and kernels, files, errors, options. Imports nothing of boostfeat."""
