"""Every public function keeps the rule of `rule`, whatever it is called with.

``FASTSKSD_FUZZ=10000 pytest tests/fuzz`` makes 10,000 calls of each function in place of 300, and
other ones each time. A call that fails goes to `found`, as it is printed.
"""

import os

import numpy as np
import pytest
from fuzz.found import FOUND
from fuzz.rule import keeps_the_rule
from fuzz.targets import TARGETS
from fuzz.values import built
from hypothesis import HealthCheck, given, settings

CASES = int(os.environ.get("FASTSKSD_FUZZ", "300"))


@pytest.mark.parametrize("name", TARGETS)
def test_rule(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a checkpoint may be named anything
    target = TARGETS[name]
    accepted = []

    def keeps(call):
        accepted.append(
            keeps_the_rule(target.call, lambda: built(call), target.names | target.also)
        )

    for call in FOUND.get(name, ()):
        keeps(call)
    del accepted[:]
    settings(
        max_examples=max(int(CASES * target.share), 1),
        derandomize="FASTSKSD_FUZZ" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )(given(target.calls())(keeps))()
    assert np.mean(accepted) >= 0.5, "most calls are refused, so that little is tested"
