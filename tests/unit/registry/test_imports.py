"""What the client to registries imports, and when."""

from __future__ import annotations

import subprocess
import sys

LATER = """\
import sys
import ci_automation.registry.http, ci_automation.registry.transport

print(*sorted({"jsonschema", "subprocess", "tarfile"} & sys.modules.keys()))
import oras.oci, oras.provider, oras.utils.fileio

oras.utils.fileio.tarfile.TarInfo("a")

try:
    oras.provider.jsonschema.validate("a", {"type": "number"})
except oras.oci.jsonschema.ValidationError as error:
    print(error.message, "jsonschema" in sys.modules)
"""


def test_what_oras_may_need_is_imported_by_the_first_method_that_does() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True)
    assert done.stdout == "\n'a' is not of type 'number' True\n"


HTTP = """\
import sys
import ci_automation.registry.http

later = {"charset_normalizer", "idna", "importlib.metadata", "urllib.request", "zipfile"}
print(*sorted(later & sys.modules.keys()), sep=",")
import requests

answer = requests.Response()
answer._content = "häß".encode()
print(answer.text, requests.packages.idna.encode("bücher.de"),)
print(requests.utils.parse_list_header('a, "b, c"'), requests.utils.zipfile.is_zipfile("/dev/null"))
"""


def test_what_requests_may_need_is_imported_when_it_does() -> None:
    command = [sys.executable, "-X", "utf8", "-c", HTTP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.splitlines() == ["", "häß b'xn--bcher-kva.de'", "['a', 'b, c'] False"]
