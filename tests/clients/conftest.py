"""What the tests share: one server for each test file, and valid objects."""

import pytest
from ballast import Ballast


@pytest.fixture(scope="module")
def ballast():
    with Ballast() as server:
        yield server
