"""What a failure of the network is called, whether it is there to stay, and whether the request may have been done."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest
import requests
from urllib3 import exceptions

from ci_automation.net.session import failure

POOL: Any = None


def caused(error: Exception, cause: BaseException) -> Exception:
    """Return `error` as it is raised from `cause`."""
    error.__cause__ = cause
    return error


def retried(reason: Exception) -> Exception:
    """Return what requests raises where urllib3 gave up for a reason."""
    return requests.ConnectionError(exceptions.MaxRetryError(POOL, "/?sig=canary", reason))


def tls(kind: type[ssl.SSLError], reason: str) -> Exception:
    """Return what requests raises where OpenSSL fails."""
    error = kind(1, f"[SSL: {reason}] canary")
    error.reason = reason
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = "self-signed certificate"
    return requests.exceptions.SSLError(exceptions.MaxRetryError(POOL, "/", exceptions.SSLError(error)))


@pytest.mark.parametrize(
    ("error", "reason", "hopeless", "unsent"),
    [
        pytest.param(
            *(tls(ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED"),),
            *("its certificate is not trusted: self-signed certificate", True, True),
            id="a certificate",
        ),
        pytest.param(
            *(tls(ssl.SSLError, "WRONG_VERSION_NUMBER"),),
            *("it does not speak TLS, and only this machine may use plain HTTP", True, True),
            id="no TLS",
        ),
        pytest.param(
            *(tls(ssl.SSLError, "TLSV1_ALERT_HANDSHAKE_FAILURE"), "the connection broke", False, True),
            id="no agreement on TLS",
        ),
        pytest.param(
            *(tls(ssl.SSLEOFError, "UNEXPECTED_EOF_WHILE_READING"), "the connection broke", False, False),
            id="TLS breaks off, perhaps later",
        ),
        pytest.param(
            *(retried(caused(exceptions.NewConnectionError(POOL, ""), socket.gaierror(socket.EAI_NONAME, "canary"))),),
            *("its host name cannot be resolved (DNS)", True, True),
            id="an unknown name",
        ),
        pytest.param(
            *(retried(caused(exceptions.NewConnectionError(POOL, ""), socket.gaierror(socket.EAI_AGAIN, "canary"))),),
            *("its host name cannot be resolved (DNS)", False, True),
            id="a name that may be known later",
        ),
        pytest.param(
            *(retried(caused(exceptions.NewConnectionError(POOL, ""), ConnectionRefusedError())),),
            *("nothing listens there", False, True),
            id="nothing listens",
        ),
        pytest.param(
            *(requests.exceptions.ProxyError(exceptions.ProxyError("canary", OSError())),),
            *("the proxy on the way to it fails", False, True),
            id="the proxy",
        ),
        pytest.param(
            *(retried(exceptions.ConnectTimeoutError(POOL, "")), "it does not answer in time", False, True),
            id="slow to connect",
        ),
        pytest.param(*(requests.ReadTimeout(), "it does not answer in time", False, False), id="slow to answer"),
        pytest.param(
            *(requests.ConnectionError(exceptions.ProtocolError("Connection aborted.", ConnectionResetError())),),
            *("the connection broke", False, False),
            id="reset",
        ),
        pytest.param(*(exceptions.IncompleteRead(1, 2), "the connection broke", False, False), id="half an answer"),
        pytest.param(*(exceptions.DecodeError("canary"), "its answer cannot be unpacked", True, False), id="packed"),
        pytest.param(
            *(requests.exceptions.InvalidURL("canary"), "this is not the address of a host", True, False),
            id=("no address"),
        ),
    ],
)
def test_a_failure_is_named_without_the_address(error: Exception, reason: str, hopeless: bool, unsent: bool) -> None:
    found = failure(error)
    assert (found.reason, found.hopeless, found.unsent) == (reason, hopeless, unsent)
    assert "canary" not in repr(found)
