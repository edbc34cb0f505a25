"""Rekor 1 and Rekor 2: two logs that grow, each a Merkle tree (RFC 6962) with signed checkpoints."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.fakes.sigstore.ca import new_key, spki
from tests.fakes.sigstore.entries import Body, canonical, encode

TREE = 1193050959916656506
EARLIER = 4_163_431  # entries in the shards before, so that an index in the log is not one in the tree


class AlreadyThere(Exception):
    """Rekor 1 has this very entry."""

    def __init__(self, entry: Entry) -> None:
        super().__init__("an equivalent entry already exists in the transparency log")
        self.entry = entry


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a log: where it is in the tree, and when it came in, by the log's own word."""

    body: Body
    index: int
    at: int

    @property
    def leaf(self) -> bytes:
        """The hash of its leaf."""
        return _leaf(self.body.canonical)


@dataclass(frozen=True, slots=True)
class Proof:
    """That a leaf is in a tree: the hashes on its way to the root, and the tree's signed checkpoint."""

    index: int
    size: int
    root: bytes
    hashes: tuple[bytes, ...]
    checkpoint: str

    @property
    def proto(self) -> dict[str, Any]:
        """It as sigstore's protobuf has it in JSON."""
        return {
            "logIndex": str(self.index),
            "rootHash": encode(self.root),
            "treeSize": str(self.size),
            "hashes": [encode(found) for found in self.hashes],
            "checkpoint": {"envelope": self.checkpoint},
        }


class Log:
    """A tree that grows; what signs its checkpoints is the difference between the two Rekors."""

    origin: str
    name: str

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._lock = threading.Lock()

    @property
    def id(self) -> bytes:
        """The log's ID, whose first bytes name the key in a checkpoint."""
        raise NotImplementedError

    def signed(self, message: bytes) -> bytes:
        """Return the log's signature."""
        raise NotImplementedError

    def add(self, body: Body, at: int = 0) -> Entry:
        """Return the entry's place, after putting it there."""
        with self._lock:
            entry = Entry(body, len(self.entries), at)
            self.entries.append(entry)
        return entry

    def proof(self, entry: Entry) -> Proof:
        """Return the proof that the log as it is now has an entry."""
        leaves = [found.leaf for found in self.entries]
        return Proof(entry.index, len(leaves), _root(leaves), _path(entry.index, leaves), self.checkpoint(leaves))

    def checkpoint(self, leaves: list[bytes]) -> str:
        """Return the signed note of a tree (C2SP, tlog-checkpoint and signed-note)."""
        text = f"{self.origin}\n{len(leaves)}\n{encode(_root(leaves))}\n"
        return f"{text}\n\N{EM DASH} {self.name} {encode(self.id[:4] + self.signed(text.encode()))}\n"


class Rekor1(Log):
    """Rekor with a time of its own for each entry, and a promise (SET) that it is in the log."""

    origin, name = f"rekor.sigstore.test - {TREE}", "rekor.sigstore.test"

    def __init__(self) -> None:
        super().__init__()
        self.key = new_key()

    @property
    def id(self) -> bytes:
        """The hash of its key."""
        return hashlib.sha256(spki(self.key.public_key())).digest()

    def signed(self, message: bytes) -> bytes:
        """Return its ECDSA signature."""
        return self.key.sign(message, ec.ECDSA(SHA256()))

    def add(self, body: Body, at: int = 0) -> Entry:
        """Return the entry's place, after putting it there.

        Raises:
            AlreadyThere: it has been there before.
        """
        leaf = _leaf(body.canonical)
        for entry in self.entries:
            if entry.leaf == leaf:
                raise AlreadyThere(entry)
        return super().add(body, at)

    def uuid(self, entry: Entry) -> str:
        """Return how the entry is called: its tree, and its leaf."""
        return f"{TREE:016x}{entry.leaf.hex()}"

    def payload(self, entry: Entry) -> dict[str, Any]:
        """Return what the promise is signed over."""
        return {
            "body": encode(entry.body.canonical),
            "integratedTime": entry.at,
            "logID": self.id.hex(),
            "logIndex": EARLIER + entry.index,
        }

    def promise(self, entry: Entry) -> bytes:
        """Return the signed entry timestamp (SET)."""
        return self.signed(canonical(self.payload(entry)))

    def answer(self, entry: Entry) -> dict[str, Any]:
        """Return what the API says about an entry."""
        proof = self.proof(entry)
        inclusion = {
            "checkpoint": proof.checkpoint,
            "hashes": [found.hex() for found in proof.hashes],
            "logIndex": proof.index,
            "rootHash": proof.root.hex(),
            "treeSize": proof.size,
        }
        verification = {"inclusionProof": inclusion, "signedEntryTimestamp": encode(self.promise(entry))}
        return {self.uuid(entry): self.payload(entry) | {"verification": verification}}

    def proto(self, entry: Entry) -> dict[str, Any]:
        """Return the entry as a bundle has it."""
        return {
            "logIndex": str(EARLIER + entry.index),
            "logId": {"keyId": encode(self.id)},
            "kindVersion": {"kind": entry.body.kind, "version": entry.body.version},
            "integratedTime": str(entry.at),
            "inclusionPromise": {"signedEntryTimestamp": encode(self.promise(entry))},
            "inclusionProof": self.proof(entry).proto,
            "canonicalizedBody": encode(entry.body.canonical),
        }


class Rekor2(Log):
    """Rekor on tiles: no time and no promise, only the proof."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.origin = self.name = host
        self.key = ed25519.Ed25519PrivateKey.generate()

    @property
    def id(self) -> bytes:
        """The hash of its name and its key (C2SP, signed-note)."""
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return hashlib.sha256(f"{self.name}\n\x01".encode() + raw).digest()

    def signed(self, message: bytes) -> bytes:
        """Return its Ed25519 signature."""
        return self.key.sign(message)

    def proto(self, entry: Entry) -> dict[str, Any]:
        """Return the entry as the API answers it, and as a bundle has it."""
        return {
            "logIndex": str(entry.index),
            "logId": {"keyId": encode(self.id)},
            "kindVersion": {"kind": entry.body.kind, "version": entry.body.version},
            "inclusionProof": self.proof(entry).proto,
            "canonicalizedBody": encode(entry.body.canonical),
        }


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\0" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _half(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << (size - 1).bit_length() - 1


def _root(leaves: list[bytes]) -> bytes:
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    half = _half(len(leaves))
    return _node(_root(leaves[:half]), _root(leaves[half:]))


def _path(index: int, leaves: list[bytes]) -> tuple[bytes, ...]:
    if len(leaves) == 1:
        return ()
    half = _half(len(leaves))
    if index < half:
        return (*_path(index, leaves[:half]), _root(leaves[half:]))
    return (*_path(index - half, leaves[half:]), _root(leaves[:half]))
