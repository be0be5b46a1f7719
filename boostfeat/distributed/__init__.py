"""Learning on a Dask cluster: workers hold blocks of sentences, the driver adds up their sums in a fixed order."""
