"""Fixtures of the tests of clients."""

from __future__ import annotations

import pytest

from tests.client import certificates as making
from tests.client.certificates import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if (reason := making.missing()) is not None:
        pytest.skip(reason)
    return making.make(tmp_path_factory.mktemp("certificates"))
