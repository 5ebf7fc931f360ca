"""More than one test, process, machine or file: streams, batches, Dask, journals."""
