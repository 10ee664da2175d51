"""What many tests share, made once for each worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import running


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a browser: starting one takes a second or two."""
    with running(tmp_path_factory.mktemp("chromium")) as address:
        yield address
