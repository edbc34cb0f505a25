"""The search for secrets is tried: tests that let one out, each in its own way, fail though they assert nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.canaries import MARK
from tests.contract import hostile_registry
from tests.fakes import forge, kms, sigstore
from tests.real import cluster, pipeline, registries, tokens
from tests.unit.registry import test_credentials as registry_credentials
from tests.unit.signing import test_keys

ROOT = Path(__file__).parents[2]
HEAD = """
import base64, logging, os, subprocess, sys
import pytest
from ci_automation.artifact.manifest import CONFIG_BLOB, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.errors import Error
from ci_automation.registry import open_registry
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.sigstore import LocalSigstore
from tests.fakes.world import key_pem, signing_key

PLACE = Reference.parse("oci://registry.example/acme/flux:production")
SECRET = "can" + "ary-of-the-test"  # not to be found in the lines of this file

class Told(Error):
    def __init__(self, text, hint=""):
        super().__init__(text)
        self.hint = hint
"""
LEAKS = {
    "printed": "print(SECRET)",
    "printed_as_an_error": "print(SECRET, file=sys.stderr)",
    "printed_by_a_process_of_ours": "subprocess.run([sys.executable, '-c', 'print(\"can\" + \"ary-x\")'], stdout=-1)",
    "logged": "logging.getLogger('x').warning(SECRET)",
    "read_by_the_test_itself": "print(SECRET); capsys.readouterr()",
    "in_the_text_of_an_error": "with pytest.raises(Told): raise Told(SECRET)",
    "in_an_error_that_nobody_raised": "Told(SECRET)",
    "in_what_an_error_says_to_do": "with pytest.raises(Told): raise Told('x', SECRET)",
    "in_another_exception": "with pytest.raises(ValueError): raise ValueError(SECRET)",
    "in_the_cause_of_an_exception": "with pytest.raises(ValueError): raise ValueError from KeyError(SECRET)",
    "encoded": "print(base64.b64encode(f'user:{SECRET}'.encode()).decode())",
    "in_hexadecimal": "print(SECRET.encode().hex())",
    "a_key": "print(key_pem().decode().splitlines()[2])",
    "a_whole_key_of_another": (
        "from cryptography.hazmat.primitives.asymmetric import ed25519 as kind\n"
        "    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat\n"
        "    key = kind.Ed25519PrivateKey.generate()\n"
        "    print(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())"
    ),
    "the_number_of_a_key": "print(signing_key().key.private_numbers().private_value)",
    "an_identity_token": "with LocalSigstore() as local: print(local.token().replace('can' + 'ary', 'x'))",
    "in_a_blob": "InMemoryRegistry().put_blob(PLACE, SECRET.encode())",
    "in_a_blob_of_a_layout": (
        "place = Reference.parse(f'layout:{tmp_path}/r:production')\n"
        "    open_registry(place).put_blob(place, SECRET.encode())"
    ),
    "in_an_annotation": (
        "registry = InMemoryRegistry()\n"
        "    registry.put_blob(PLACE, CONFIG_BLOB)\n"
        "    config = Descriptor.of('x', CONFIG_BLOB)\n"
        "    registry.put_manifest(PLACE, Manifest.build(config, (config,), {'a': SECRET}))"
    ),
    "in_a_command_line": "subprocess.run(['true', SECRET])",
    "in_a_command_line_without_a_library": ("os.waitpid(os.posix_spawn('/bin/true', ['true', SECRET], os.environ), 0)"),
    "in_a_shell": "os.system(f'true {SECRET}')",
    "in_a_command_line_of_a_process_of_ours": (
        'code = \'import subprocess; subprocess.run(["true", "can" + "ary-x"])\'\n'
        "    subprocess.run([sys.executable, '-c', code], env={'PATH': os.environ['PATH']})"
    ),
}
KEPT = {
    "in_a_variable": "assert SECRET",
    "in_a_file_of_the_test": "(tmp_path / 'secret').write_text(SECRET)",
    "in_the_environment_of_a_process": "subprocess.run(['true'], env={**os.environ, 'SECRET': SECRET})",
    "printed_by_a_credential_helper": "subprocess.run(['printf', '%s', *'canary', '-x'], stdout=-1)",
    "a_public_key": "print(signing_key().public.to_pem())",
    "a_tag": "print('oci://registry.example/flux:canary')",
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return how each of those tests ended, and what is said of it."""
    folder = tmp_path_factory.mktemp("inner")
    bodies = "".join(
        f"\ndef test_{name}(tmp_path{', capsys' if 'capsys' in body else ''}):\n    {body}\n"
        for name, body in {**LEAKS, **KEPT}.items()
    )
    (folder / "test_inner.py").write_text(HEAD + bodies)
    (folder / "conftest.py").write_text("from tests.canaries import canaries, pytest_runtest_makereport\n")
    options = ["-c", "/dev/null", "--rootdir", str(folder), "-p", "no:cacheprovider", "-q", "--junit-xml", "junit.xml"]
    subprocess.run(
        ["env", sys.executable, "-m", "pytest", *options, str(folder)],  # `env`, so that it is not itself watched
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        stdout=subprocess.DEVNULL,  # there are secrets in it
        check=False,
        timeout=120,
    )
    return {
        str(case.get("name")).removeprefix("test_"): " ".join(each.text or "" for each in case) or "passed"
        for case in ET.parse(folder / "junit.xml").iter("testcase")  # noqa: S314  # pytest wrote it
    }


@pytest.mark.parametrize("way", LEAKS)
def test_a_secret_is_found(ended: dict[str, str], way: str) -> None:
    assert "a secret was let out" in ended[way]


@pytest.mark.parametrize("way", KEPT)
def test_what_is_kept_is_not_taken_for_a_leak(ended: dict[str, str], way: str) -> None:
    assert ended[way] == "passed"


SECRETS = {
    "the password of a key": test_keys.PASSWORD,
    "the password of cosign's key": pipeline.PASSWORD,
    "GitHub's token": forge.TOKEN,
    "a registry's password": hostile_registry.PASSWORD,
    "a real registry's password": registries.PASSWORD,
    "the password of who reads": tokens.READER.password,
    "the password of who writes": tokens.WRITER.password,
    "a password in docker's file": registry_credentials.ALICE.password,
    "the key of AWS": kms.SECRET_KEY,
    "the session of AWS": kms.SESSION_TOKEN,
    "the token of Vault": kms.TOKEN,
    "the token for identity tokens": sigstore.api.REQUEST_TOKEN,
    "the cluster's token": cluster.TOKEN,
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_every_secret_of_the_tests_has_the_mark(secret: str) -> None:
    assert MARK in secret
