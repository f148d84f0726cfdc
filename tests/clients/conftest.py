"""What the tests share: one server for each file of tests, and objects that are valid as they are."""

import pytest
from ballast import Ballast


@pytest.fixture(scope="module")
def ballast():
    with Ballast() as server:
        yield server
