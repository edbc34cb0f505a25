"""What the client to registries imports, and when."""

from __future__ import annotations

import subprocess
import sys

LATER = """\
import sys
import ci_automation.registry.http, ci_automation.registry.transport

print("jsonschema" in sys.modules)
import oras.oci, oras.provider

try:
    oras.provider.jsonschema.validate("a", {"type": "number"})
except oras.oci.jsonschema.ValidationError as error:
    print(error.message, "jsonschema" in sys.modules)
"""


def test_jsonschema_is_imported_by_the_first_method_of_oras_that_validates() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n'a' is not of type 'number' True\n"


HTTP = """\
import sys
import ci_automation.registry.http

print(*sorted({"charset_normalizer", "idna", "importlib.metadata"} & sys.modules.keys()), sep=",")
import requests

answer = requests.Response()
answer._content = "häß".encode()
print(answer.text, requests.packages.idna.encode("bücher.de"),)
"""


def test_what_requests_may_need_is_imported_when_it_does() -> None:
    command = [sys.executable, "-X", "utf8", "-c", HTTP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.splitlines() == ["", "häß b'xn--bcher-kva.de'"]
