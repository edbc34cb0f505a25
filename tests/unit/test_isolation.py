"""What the unit tests may not do."""

from __future__ import annotations

import socket

import pytest
from pytest_socket import SocketBlockedError


def test_no_test_opens_a_socket() -> None:
    with pytest.warns(UserWarning, match="tried to use socket"), pytest.raises(SocketBlockedError):
        socket.socket()
