"""LAPACK on one thread, and what it was before afterwards."""

import threading

import numpy as np

from fastsksd.compute import blas
from fastsksd.compute.blas import one_blas_thread


def test_number_of_threads_is_put_back():
    read, write = blas._openblas()
    before = read()
    try:
        write(2)
        with one_blas_thread(), one_blas_thread():
            assert read() == 1
        assert read() in (1, 2)  # 1 where there is another library
        several = read()
        entered, leave = threading.Event(), threading.Event()

        def other():
            with one_blas_thread():
                entered.set()
                leave.wait()

        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
        with one_blas_thread():
            leave.set()
            thread.join()
            assert read() == 1
        assert read() == several
    finally:
        write(before)


def test_numpy_wheels_are_found():
    """Where NumPy says that it has OpenBLAS, its number of threads can be set."""
    name = np.show_config("dicts")["Build Dependencies"]["blas"]["name"]
    read, write = blas._openblas()
    if (
        "openblas" in name.lower()
        and (blas.Path(np.__file__).parent.parent / "numpy.libs").exists()
    ):
        before = read()
        write(before)
        assert before >= 1 and "_FuncPtr" in type(read).__name__
