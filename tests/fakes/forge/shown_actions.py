"""Runs, workflows and environments as the REST API shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.forge.shown import Json, repository, team_of, user, when

if TYPE_CHECKING:
    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.state import Environment, Run, Workflow


def run_of(repo: Repository, run: Run) -> Json:
    """Return a run of a workflow."""
    base = f"{repo.forge.url}/repos/{repo.full_name}/actions"
    place = f"{base}/runs/{run.id}"
    return {
        "id": run.id,
        "node_id": f"WFR_{run.id}",
        "name": run.name,
        "path": run.workflow.path,
        "run_number": run.number,
        "run_attempt": run.attempt,
        "event": run.event,
        "status": run.status,
        "conclusion": run.conclusion,
        "display_title": run.title,
        "head_branch": run.branch,
        "head_sha": run.sha,
        "workflow_id": run.workflow.id,
        "url": place,
        "html_url": f"{repo.forge.host}/{repo.full_name}/actions/runs/{run.id}",
        "workflow_url": f"{base}/workflows/{run.workflow.id}",
        "created_at": when(run.created),
        "updated_at": when(run.updated),
        "run_started_at": when(run.created),
        "actor": user(repo.forge, run.actor),
        "triggering_actor": user(repo.forge, run.triggered_by or run.actor),
        "pull_requests": [],
        "repository": repository(repo),
        "head_repository": repository(repo),
        "jobs_url": f"{place}/jobs",
        "cancel_url": f"{place}/cancel",
        "rerun_url": f"{place}/rerun",
    }


def workflow_of(repo: Repository, workflow: Workflow, name: str) -> Json:
    """Return a workflow."""
    place = f"{repo.forge.url}/repos/{repo.full_name}/actions/workflows/{workflow.id}"
    page = f"{repo.forge.host}/{repo.full_name}/blob/{repo.default_branch}/{workflow.path}"
    return {
        "id": workflow.id,
        "node_id": f"W_{workflow.id}",
        "name": name,
        "path": workflow.path,
        "state": workflow.state,
        "created_at": when(workflow.created),
        "updated_at": when(workflow.created),
        "url": place,
        "html_url": page,
        "badge_url": page,
    }


def environment_of(repo: Repository, environment: Environment) -> Json:
    """Return an environment with its rules."""
    rules: list[Json] = []
    number = environment.id * 10
    if environment.reviewers:
        people = [reviewer(repo, name) for name in environment.reviewers]
        self_review = environment.prevent_self_review
        kind = {"id": number, "node_id": f"GA_{number}", "type": "required_reviewers"}
        rules.append({**kind, "prevent_self_review": self_review, "reviewers": people})
    if environment.wait_timer:
        timer = {"id": number + 2, "node_id": f"GA_{number + 2}", "type": "wait_timer"}
        rules.append({**timer, "wait_timer": environment.wait_timer})
    if environment.branches:
        rules.append({"id": number + 1, "node_id": f"GA_{number + 1}", "type": "branch_policy"})
    protected = environment.branches == "protected"
    policy = {"protected_branches": protected, "custom_branch_policies": not protected}
    return in_short(repo, environment) | {
        "protection_rules": rules,
        "deployment_branch_policy": policy if environment.branches else None,
    }


def reviewer(repo: Repository, name: str) -> Json:
    """Return somebody who may answer for an environment."""
    if "/" in name:
        return {"type": "Team", "reviewer": team_of(repo, name.partition("/")[2])}
    return {"type": "User", "reviewer": user(repo.forge, name)}


def in_short(repo: Repository, environment: Environment) -> Json:
    """Return an environment without its rules."""
    return {
        "id": environment.id,
        "node_id": f"EN_{environment.id}",
        "name": environment.name,
        "url": f"{repo.forge.url}/repos/{repo.full_name}/environments/{environment.name}",
        "html_url": f"{repo.forge.host}/{repo.full_name}/deployments/{environment.name}",
        "created_at": when(environment.created),
        "updated_at": when(environment.created),
    }
