"""A double of GitHub with real state: what people do in a test, programs see by REST and GraphQL, and back."""

from __future__ import annotations

from tests.fakes.forge.exchange import Request
from tests.fakes.forge.faults import LOST, RESET, Fault, after, nth, times
from tests.fakes.forge.forge import TOKEN, Forge, WrongExchange
from tests.fakes.forge.people import ACTIONS, App, Token
from tests.fakes.forge.repository import Repository
from tests.fakes.forge.state import Issue, Pull, Refused, Run

__all__ = [
    "ACTIONS",
    "LOST",
    "RESET",
    "TOKEN",
    "App",
    "Fault",
    "Forge",
    "Issue",
    "Pull",
    "Refused",
    "Repository",
    "Request",
    "Run",
    "Token",
    "WrongExchange",
    "after",
    "nth",
    "times",
]
