"""A cluster's control plane with Flux's own controllers, as four processes on loopback.

It shows what a cluster makes of an artifact. There are no nodes: what is applied can be read back, no pod ever runs.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import ssl
import sys
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.real.peers import peer
from tests.real.processes import Daemon, free_port, run, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    Object = dict[str, Any]

NAMESPACE = "flux-system"
TOKEN = "canary-the-admin's-token"
START = 60.0
POLL = 1.0  # each look is a process of kubectl
AT_WORK = "Starting workers"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# A test does not wait out a back-off of up to a quarter of an hour.
PACE = ("--min-retry-delay=250ms", "--max-retry-delay=1s")


class Cluster:
    """A cluster in `folder`, where its data and the logs of its processes are; a context manager.

    Everything ends with the block.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: list[Daemon] = []
        self._stack = ExitStack()
        self._kubeconfig = folder / "kubeconfig"
        self._port = 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start_api_server(self._start_etcd())
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for daemon in reversed(self.daemons):
            # Nothing of it is needed any more, and some of them take ten seconds to say goodbye.
            daemon.kill()
        self._stack.__exit__(kind, error, trace)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess's own word
        """Return what kubectl prints.

        Raises:
            ProgramFailed: it ended with an error.
        """
        command = [peer("kubectl"), f"--cache-dir={self.folder / 'kubectl'}", *arguments]
        return run(command, input, KUBECONFIG=str(self._kubeconfig))

    def flux(self, *arguments: str) -> str:
        """Return what the Flux CLI prints.

        Raises:
            ProgramFailed: it ended with an error.
        """
        return run([peer("flux"), *arguments], KUBECONFIG=str(self._kubeconfig))

    def shell(self, command: str) -> str:
        """Return what a command prints that people run as it stands, with kubectl by its name.

        Raises:
            ProgramFailed: it ended with an error.
        """
        path = f"{peer('kubectl').parent}:{os.environ['PATH']}"
        return run(["bash", "-euo", "pipefail", "-c", command], KUBECONFIG=str(self._kubeconfig), PATH=path)

    def paste(self, commands: str, folder: Path) -> None:
        """Run commands in a folder as a person pastes them, with our program, kubectl and flux by their names.

        Raises:
            ProgramFailed: the last of them ended with an error.
        """
        places = (Path(sys.executable).parent, peer("kubectl").parent, peer("flux").parent, os.environ["PATH"])
        path = ":".join(map(str, places))
        run(["bash", "-c", f"cd {shlex.quote(str(folder))}\n{commands}"], KUBECONFIG=str(self._kubeconfig), PATH=path)

    def apply(self, text: str, owner: str = "kubectl") -> None:
        """Apply some YAML or JSON, as a person would, before or beside Flux."""
        self._apply(text, owner)

    def try_out(self, text: str, owner: str) -> None:
        """Let the API server say what it would make of it, and change nothing.

        Raises:
            ProgramFailed: it would not take all of it.
        """
        self._apply(text, owner, "--dry-run=server")

    def define(self, definitions: Iterable[Object], owner: str, *, dry: bool = False) -> list[str]:
        """Apply definitions of objects as kustomize-controller does, or try that; return why some are not taken.

        kubectl would do the same, and make the API server describe all of its kinds each time.
        """
        how = f"fieldManager={owner}&force=true{'&dryRun=All' if dry else ''}"
        answers = [
            self._ask("PATCH", f"{DEFINITIONS}/{each['metadata']['name']}?{how}", json.dumps(each))
            for each in definitions
        ]
        return [json.loads(text)["message"] for status, text in answers if status >= HTTPStatus.BAD_REQUEST]

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Object | None:
        """Return an object, or nothing where it is not there."""
        text = self.kubectl("get", kind, name, f"--namespace={namespace}", "--ignore-not-found", "--output=json")
        found: Object | None = json.loads(text) if text else None
        return found

    def all_of(self, kind: str) -> list[Object]:
        """Return all objects of a kind, whatever their namespace."""
        found: list[Object] = json.loads(self.kubectl("get", kind, "--all-namespaces", "--output=json"))["items"]
        return found

    def wait_for(
        self, kind: str, name: str, predicate: Callable[[Object], bool], timeout: float, namespace: str = NAMESPACE
    ) -> Object:
        """Return an object once it is as `predicate` wants it.

        Raises:
            NotInTime: it did not become so within `timeout` seconds; the message has its last status.
        """
        last: Object | None = None

        def look() -> Object | None:
            nonlocal last
            last = self.get(kind, name, namespace)
            return last if last is not None and predicate(last) else None

        def otherwise() -> str:
            status = json.dumps((last or {}).get("status"), indent=1)
            return f"{kind} {namespace}/{name} did not come to be as expected in {timeout} s; its status: {status}"

        return wait_until(look, timeout, otherwise, POLL)

    def wait_until_discovered(self) -> None:
        """Wait until clients find every kind that is defined, which is a moment after a definition was taken.

        Raises:
            NotInTime: they do not find them all.
        """
        _, text = self._ask("GET", DEFINITIONS)
        defined = {
            (each["spec"]["group"], version["name"], each["spec"]["names"]["plural"])
            for each in json.loads(text)["items"]
            for version in each["spec"]["versions"]
            if version["served"]
        }
        wait_until(
            lambda: defined <= self._found_kinds() or None,
            START,
            lambda: f"clients do not find {sorted(defined - self._found_kinds())}",
        )

    def start_controllers(self) -> None:
        """Start source-controller and kustomize-controller, which need the CRDs of a release applied before."""
        for daemon in (self.start_source_controller(), self._start_controller("kustomize-controller", *PACE)):
            daemon.wait_for_line(AT_WORK, START)

    def start_source_controller(
        self, name: str = "source-controller", namespace: str | None = None, pace: Sequence[str] = PACE, **more: str
    ) -> Daemon:
        """Start the source-controller of that name, and return it before it is at work.

        It looks after all namespaces, or `namespace` alone, beside others of its kind; `more` is for its environment.
        """
        port, storage = free_port(), self._made(f"{name}-storage")
        where = ("--storage-path", str(storage), "--storage-addr", f"127.0.0.1:{port}")
        address = f"--storage-adv-addr=127.0.0.1:{port}"
        return self._start_controller(name, *pace, *where, address, namespace=namespace, **more)

    def follow(self, url: str, tag: str, public_key: str | None, interval: str = "2s", name: str = NAMESPACE) -> None:
        """Let the cluster follow a channel, `oci://host/repository` and a tag, as the guide tells people to.

        With a `public_key` (PEM) it takes only what a cosign signature by that key vouches for.
        """
        metadata = {"name": name, "namespace": NAMESPACE}
        objects = [manifest("v1", "Namespace", {"name": NAMESPACE})]
        source = {"url": url, "ref": {"tag": tag}, "interval": interval, "insecure": True}
        if public_key is not None:
            key = {"name": f"{name}-cosign", "namespace": NAMESPACE}
            objects.append(manifest("v1", "Secret", key, stringData={"cosign.pub": public_key}))
            source["verify"] = {"provider": "cosign", "secretRef": {"name": key["name"]}}
        kustomization = {
            "sourceRef": {"kind": "OCIRepository", "name": name},
            "interval": "1h",  # a new artifact is applied at once, and each time takes the API server a second
            "retryInterval": interval,
            "path": "./",
            "prune": True,
            "wait": False,
        }
        objects.append(manifest("source.toolkit.fluxcd.io/v1", "OCIRepository", metadata, spec=source))
        objects.append(manifest("kustomize.toolkit.fluxcd.io/v1", "Kustomization", metadata, spec=kustomization))
        self.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), owner="tests")

    def wait_until_applied(self, digest: str, timeout: float, name: str = NAMESPACE) -> Object:
        """Return the Kustomization once it is ready on the artifact of that digest, `sha256:...`.

        Raises:
            NotInTime: it did not get there.
        """

        def ready_on_it(found: Object) -> bool:
            revision = found.get("status", {}).get("lastAppliedRevision", "")
            return condition(found)[0] == "True" and revision.endswith(f"@{digest}")

        return self.wait_for("kustomization", name, ready_on_it, timeout)

    def wait_until_refused(self, reason: str, timeout: float, name: str = NAMESPACE) -> str:
        """Return the cluster's whole word once it does not take an artifact for a reason that contains `reason`.

        Raises:
            NotInTime: it did not say so.
        """
        message = ""

        def refused(_: Object) -> bool:
            nonlocal message
            message = self.refusal(name)
            return reason in message

        self.wait_for("ocirepository", name, refused, timeout)
        return message

    def applied(self, name: str = NAMESPACE) -> tuple[str, str]:
        """Return the revision that was applied last (`tag@digest`) and its origin, the annotation."""
        status = (self.get("kustomization", name) or {}).get("status", {})
        return status.get("lastAppliedRevision", ""), status.get("lastAppliedOriginRevision", "")

    def refusal(self, name: str = NAMESPACE) -> str:
        """Return why the cluster does not take the artifact: the source's message or, after it, the Kustomization's."""
        states = (condition(self.get(kind, name) or {}) for kind in ("ocirepository", "kustomization"))
        return next((message for state, message in states if state == "False"), "")

    def _apply(self, text: str, owner: str, *more: str) -> None:
        how = ("--server-side", "--force-conflicts", f"--field-manager={owner}", *more)
        self.kubectl("apply", *how, "-f", "-", input=text)

    def _made(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def _found_kinds(self) -> set[tuple[str, str, str]]:
        """Return group, version and plural of each kind that clients find."""
        _, text = self._ask("GET", "/apis", accept=DISCOVERY)
        return {
            (group["metadata"]["name"], version["version"], each["resource"])
            for group in json.loads(text)["items"]
            for version in group["versions"]
            for each in version.get("resources", ())
        }

    def _start(self, name: str, *arguments: str, **environment: str) -> Daemon:
        assert name not in {each.log.stem for each in self.daemons}, f"{name} runs already, and two of them would fight"
        command = [str(peer(name)), *arguments]
        daemon = self._stack.enter_context(Daemon(command, self.folder / "logs" / f"{name}.log", environment))
        self.daemons.append(daemon)
        return daemon

    def _start_etcd(self) -> str:
        client, member = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        own = ("--data-dir", str(self._made("etcd")), "--name", "etcd", "--initial-cluster", f"etcd={member}")
        clients = ("--listen-client-urls", client, "--advertise-client-urls", client)
        members = ("--listen-peer-urls", member, "--initial-advertise-peer-urls", member)
        self._start("etcd", *own, *clients, *members).wait_for_line("ready to serve client requests", START)
        return client

    def _start_api_server(self, etcd: str) -> None:
        self._port = port = free_port()
        key, users = self.folder / "service-accounts.pem", self.folder / "tokens.csv"
        key.write_bytes(service_account_key())
        users.write_text(f"{TOKEN},admin,1,system:masters\n")
        self._kubeconfig.write_text(json.dumps(kubeconfig(f"https://127.0.0.1:{port}")))
        addresses = ("--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", str(port))
        files = ("--cert-dir", str(self._made("certificates")), "--token-auth-file", str(users))
        accounts = ("--service-account-key-file", str(key), "--service-account-signing-key-file", str(key))
        issuer = ("--service-account-issuer", "https://kubernetes.default.svc")
        rules = ("--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount")
        services = ("--service-cluster-ip-range", "10.9.0.0/24")
        # It collects less garbage, and takes a quarter less time for it.
        daemon = self._start("kube-apiserver", *addresses, *files, *accounts, *issuer, *rules, *services, GOGC="400")
        daemon.wait_until(self._api_server_ready, START, "being ready")

    def _api_server_ready(self) -> bool | None:
        try:
            status, _ = self._ask("GET", "/readyz")
        except OSError:
            return None
        return status == HTTPStatus.OK or None

    def _ask(self, method: str, path: str, body: str = "", accept: str = "application/json") -> tuple[int, str]:
        """Return the API server's status and answer; its certificate is its own work of a second ago."""
        trusting = ssl._create_unverified_context()  # noqa: S323
        api = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=START, context=trusting)
        try:
            kinds = {"Accept": accept, "Content-Type": "application/apply-patch+yaml"}
            headers = {"Authorization": f"Bearer {TOKEN}"} | kinds
            api.request(method, path, body, headers)
            answer = api.getresponse()
            return answer.status, answer.read().decode()
        finally:
            api.close()

    def _start_controller(self, name: str, *arguments: str, namespace: str | None = None, **more: str) -> Daemon:
        self.wait_until_discovered()  # a controller looks once, and ends where a kind is not there
        ports = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        common = ("--enable-leader-election=false", "--events-addr=", "--log-encoding=json")
        watch = f"--watch-all-namespaces={str(namespace is None).lower()}"
        listen = (f"--metrics-addr={ports[0]}", f"--health-addr={ports[1]}")
        environment = {"KUBECONFIG": str(self._kubeconfig), "RUNTIME_NAMESPACE": namespace or NAMESPACE}
        folders = {"HOME": str(self._made(f"{name}-home")), "TMPDIR": str(self._made(f"{name}-tmp"))}
        return self._start(name, *common, watch, *listen, *arguments, **environment, **folders, **more)


def manifest(version: str, kind: str, metadata: Object, **rest: Object) -> Object:
    """Return an object as the API server takes it."""
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def condition(found: Object, kind: str = "Ready") -> tuple[str, str]:
    """Return the state (`True`, `False`, `Unknown`) and the message of a condition; empty where there is none."""
    conditions = found.get("status", {}).get("conditions", [])
    wanted: Object = next((entry for entry in conditions if entry["type"] == kind), {})
    return wanted.get("status", ""), wanted.get("message", "")


def service_account_key() -> bytes:
    """Return a new private key for the API server's own tokens, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def kubeconfig(server: str) -> Object:
    """Return a kubeconfig of the administrator; the API server's certificate is its own work of a second ago."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        "current-context": "real",
    }
