"""What the tests share: one server for each test file, and valid objects.

With $BALLAST_REPLICAS the leader is killed every ten seconds, and a client whose connection or
write ends with it is told so. It begins anew, as a person would: a test that fails is run again if
a leader was killed meanwhile, and only then. A test that never gets through fails.
"""

import time

import pytest
from _pytest.runner import runtestprotocol
from ballast import REPLICAS, served, was_killed

# How often a test is run, if leaders are killed under it.
RUNS_MAX = 6


@pytest.fixture(scope="module")
def ballast():
    with served() as server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if not REPLICAS:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for run in range(RUNS_MAX):
        began = time.monotonic()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        is_unlucky = any(report.failed for report in reports) and was_killed(began, time.monotonic())
        if not is_unlucky or run == RUNS_MAX - 1:
            break
        print(f"{item.name} met the end of a leader, and begins anew")
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
