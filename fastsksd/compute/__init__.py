"""Compiled mathematics: decorators, pointwise kernels, medians, series, projections, random streams, linear algebra."""
