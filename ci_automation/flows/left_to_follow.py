"""The steps by which clusters come to verify and follow a channel, in the list that `setup` prints."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from ci_automation.flows.cluster_loops import in_clusters
from ci_automation.flows.setup import PUBLIC_KEY, cluster_trust
from ci_automation.report.sync import ByKey, verify_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.answers import Answers

READY = "wait ocirepository,kustomization flux-manifests --for=condition=Ready --timeout=5m"  # of kubectl


def left_to_verify(answers: Answers, there: Mapping[str, Reference]) -> Iterator[str]:
    """Yield how clusters come to verify the channels that are `there`."""
    if not there:
        return
    yield "Look for NAMESPACE and NAME of the OCIRepository in these clusters: `kubectl get ocirepositories -A`"
    yield from left_to_trust(answers, "NAMESPACE")
    guide = f"{answers.docs}/guides/from-a-script.md#what-can-go-wrong"
    verify = shlex.quote(json.dumps({"spec": {"verify": verify_block(cluster_trust(answers))}}))
    for channel in there.values():
        yield (
            f"Once {channel} is adopted, let one cluster verify, then the others. If Git has the OCIRepository, write "
            f"`verify` there instead. If it fails: {guide}\n"
            f"kubectl -n NAMESPACE patch ocirepository NAME --type merge --patch {verify}\n"
            "kubectl -n NAMESPACE wait ocirepository NAME --for=condition=SourceVerified --timeout=5m"
        )
    if answers.first[0] in there:
        yield f"When clusters of {answers.first[0]} verify, delete its line `paused: true` again, if it has one."


def left_to_follow(answers: Answers) -> Iterator[str]:
    """Yield how clusters come to follow their channels."""
    home = answers.home
    yield from left_to_trust(answers, home)
    yield f"A cluster without Flux gets it first: {answers.docs}/guides/clusters.md#the-first-installation"
    kubectl = f"kubectl -n {home}"
    for name in answers.channels:
        yield (
            f"In each cluster of {name} that has Flux and follows no channel yet, one first. If it fails, "
            f"`{kubectl} get ocirepositories,kustomizations` says why.\n"
            f"kubectl apply -f {answers.objects}/{name}\n"
            f"{kubectl} {READY}"
        )


def left_to_trust(answers: Answers, namespace: str) -> Iterator[str]:
    """Yield how clusters get the public key, if runs sign with one."""
    if isinstance(by := cluster_trust(answers), ByKey):
        secret = f"flux-manifests public-key {PUBLIC_KEY} --secret {by.secret} --namespace {namespace}"
        made = in_clusters(answers, f"{secret} | kubectl apply -f -")
        yield f"In each cluster, make the Secret with the public key.\n{made}"
