"""The same p-values for any number of threads, of BLAS and of ours, and for code new or kept.

Statistics may differ in the last digits: sums are grouped by the library, and a function that was
just compiled may be inlined in other ways than one from disk.
"""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

PROGRAM = """
    import json, sys
    import numpy as np, fastsksd as fs

    rng = np.random.default_rng(0)
    x = rng.standard_normal((240, 20)) * np.r_[0.9, np.ones(19)]
    model = fs.models.Gaussian(np.zeros(20), np.eye(20))
    one_set = [
        dict(n_slices=3),
        dict(slices=fs.random_slices(20, 3, rng=0), null="bootstrap"),
    ]
    others = [
        dict(),
        dict(n_slices=3, estimator="ge", refine=2),
        dict(basis="identity", engine="fourier"),
        dict(slices=fs.random_slices(20, 3, rng=0), null="spectral"),
        dict(precondition="full"),
        dict(method="ksd"),
        dict(method="mmd"),
    ]
    done = []
    for options in one_set if sys.argv[1] == "one set" else one_set + others:
        result = fs.gof_test(x, model, n_resamples=199, rng=1, **options)
        done.append([result.pvalue, result.statistic, *result.slice_statistics])
    print(json.dumps(done))
"""


def start(what, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), what],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What each process printed. They run side by side."""
    cold = str(tmp_path_factory.mktemp("cold"))
    started = {"cold": start("one set", NUMBA_CACHE_DIR=cold)}
    for count in ("1", "2", "4"):
        names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
        started[count] = start("all", **dict.fromkeys(names, count))
    done = {}
    for name, process in started.items():
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        done[name] = json.loads(output)
    return done


@pytest.mark.parametrize("name", ["2", "4", "cold"])
def test_pvalues_do_not_depend_on_threads_or_caches(outcomes, name):
    alike = list(zip(outcomes[name], outcomes["1"], strict=name != "cold"))
    assert len(alike) == (2 if name == "cold" else 9)
    for (pvalue, *statistics), (expected, *wanted) in alike:
        np.testing.assert_allclose(statistics, wanted, rtol=1e-9, atol=1e-11)
        assert pvalue == pytest.approx(expected, rel=1e-9) and (pvalue == expected or pvalue < 1e-3)
