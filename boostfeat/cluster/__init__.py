"""The Dask engine: the same trees and weights as on one machine, from sentences that are spread over workers."""
