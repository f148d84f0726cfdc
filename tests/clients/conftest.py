"""What the tests share: one server for each file of tests, and objects that are valid as they are."""

import pytest
from ballast import Ballast


@pytest.fixture(scope="module")
def ballast():
    with Ballast() as server:
        yield server


@pytest.fixture
def server_side_apply(ballast):
    if "application/apply-patch+yaml" not in ballast.get("/openapi/v3/apis/work.karmada.io/v1alpha2"):
        pytest.skip("server-side apply is not served yet")
