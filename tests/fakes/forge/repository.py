"""A repository: its workflows, their runs, and the environments where runs wait for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.forge.pulls import Pulls
from tests.fakes.forge.state import Decision, Environment, Refused, Run, Workflow
from tests.fakes.forge.workflows import FOLDER, environments, filled, is_workflow, parsed, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.objects import Objects

MAX_INPUTS = {"api.github.com": 25}
_OLD_MAX_INPUTS = 10
_MAX_PAYLOAD = 10
DONE = "completed"


class Repository(Pulls):
    """What a test changes as people would, and what programs see by the API."""

    def __init__(self, forge: Forge, name: str, objects: Objects, *, private: bool = True) -> None:
        super().__init__(forge, name, objects, private=private)
        self.environments: dict[str, Environment] = {}
        self.runs: list[Run] = []
        self.statuses: dict[str, dict[str, str]] = {}  # by commit, the state of each context
        self.dispatched: list[tuple[str, dict[str, Any]]] = []  # event type and payload of every repository dispatch
        self._workflows: dict[str, Workflow] = {}

    @property
    def workflows(self) -> dict[str, Workflow]:
        """The workflows of the default branch by path."""
        for path in self.objects.files_at(self.head) if self.branches else ():
            if is_workflow(path) and path not in self._workflows:
                self._workflows[path] = Workflow(self.forge.next_id(), path, self.now())
        return self._workflows

    def environment(
        self,
        name: str,
        reviewers: Sequence[str] = (),
        *,
        prevent_self_review: bool = False,
        branches: str | None = None,
        wait_timer: int = 0,
    ) -> Environment:
        """Set up an environment; with reviewers its jobs wait for one of them."""
        people = list(reviewers)
        made = Environment(self.forge.next_id(), name, people, prevent_self_review, branches, self.now(), wait_timer)
        self.environments[name] = made
        return made

    def workflow(self, name: str) -> Workflow:
        """Return a workflow by its file's name or by its number.

        Raises:
            Refused: there is none.
        """
        for path, workflow in self.workflows.items():
            if name in {path, path.removeprefix(FOLDER), str(workflow.id)}:
                return workflow
        raise Refused(404, "Not Found", kind="NOT_FOUND")

    def run(self, identity: int) -> Run:
        """Return a run.

        Raises:
            Refused: there is none.
        """
        for run in self.runs:
            if run.id == identity:
                return run
        raise Refused(404, "Not Found", kind="NOT_FOUND")

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, Any], by: str) -> Run:
        """Start a workflow by hand.

        Raises:
            Refused: it cannot be started so, or the inputs are not its own.
        """
        found = self.workflow(workflow)
        commit = self.resolve(ref)
        text = self.objects.read(commit, found.path) if commit else None
        if text is None:
            raise Refused(422, f"No ref found for: {ref}")
        if found.state != "active":
            raise Refused(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow")
        content = parsed(text)
        if "workflow_dispatch" not in content["on"]:
            raise Refused(422, "Workflow does not have 'workflow_dispatch' trigger")
        declared: dict[str, Any] = content["on"]["workflow_dispatch"].get("inputs") or {}
        if unexpected := sorted(inputs.keys() - declared.keys()):
            raise Refused(422, f"Unexpected inputs provided: {unexpected}".replace("'", '"'))
        for name, spec in declared.items():
            if (spec or {}).get("required") and "default" not in spec and not inputs.get(name):
                raise Refused(422, f"Required input '{name}' not provided")
        if len(inputs) > MAX_INPUTS.get(self.forge.flavour, _OLD_MAX_INPUTS):
            raise Refused(422, 'Invalid request.\n\nNo subschema in "anyOf" matched.')
        branch = ref.removeprefix("refs/heads/")
        return self.start(found.path, "workflow_dispatch", by, branch=branch, inputs=filled(declared, inputs))

    def dispatch_event(self, kind: str, payload: dict[str, Any], by: str) -> list[Run]:
        """Send an event, and return the runs that it starts.

        Raises:
            Refused: the payload has too many keys.
        """
        if len(payload) > _MAX_PAYLOAD:
            raise Refused(422, f"No more than {_MAX_PAYLOAD} properties are allowed; {len(payload)} were supplied.")
        self.dispatched.append((kind, payload))
        event = {"action": kind, "client_payload": payload}
        started = []
        for path, workflow in self.workflows.items():
            trigger = self._content(path)["on"].get("repository_dispatch")
            if trigger is None or workflow.state != "active":
                continue
            types = trigger.get("types", [kind])
            if kind in ([types] if isinstance(types, str) else types):
                started.append(self.start(path, "repository_dispatch", by, event=event))
        return started

    def start(
        self,
        path: str,
        event_name: str,
        by: str,
        *,
        branch: str = "",
        inputs: Mapping[str, Any] | None = None,
        event: dict[str, Any] | None = None,
    ) -> Run:
        """Let a workflow run; it waits where an environment of it has reviewers."""
        path = path if path.startswith(FOLDER) else FOLDER + path
        workflow, content, branch = self.workflow(path), self._content(path, branch), branch or self.default_branch
        payload = {**(event or {}), **({"inputs": dict(inputs)} if inputs else {})}
        context = {
            "inputs": dict(inputs or {}),
            "github": {"event": payload, "event_name": event_name, "actor": by, "repository": self.full_name},
        }
        name = str(content.get("name") or path)
        usual = {"repository_dispatch": payload.get("action", name), "push": self._headline(branch)}
        title = rendered(str(content.get("run-name") or ""), context) or usual.get(event_name, name)
        number = 1 + sum(run.workflow is workflow for run in self.runs)
        sha, now = self.resolve(branch) or self.head, self.now()
        run = Run(self.forge.next_id(), number, workflow, name, event_name, branch, sha, title, by, now, now)
        run.inputs, run.event_payload = {k: str(v) for k, v in (inputs or {}).items()}, payload
        self.runs.append(run)
        self._wait(run, environments(content, context, self._called))
        return run

    def complete(self, identity: int, conclusion: str = "success") -> None:
        """Let a run come to its end."""
        run = self.run(identity)
        run.status, run.conclusion, run.updated, run.waits_for = DONE, conclusion, self.now(), []

    def begin(self, identity: int) -> None:
        """Let a queued run find a runner."""
        run = self.run(identity)
        run.status, run.updated = "in_progress", self.now()

    def rerun(self, identity: int, by: str, job: str = "") -> None:
        """Run again what came to its end, or one job of it, at the same commit; it waits for people again."""
        run = self.run(identity)
        run.attempt, run.conclusion, run.triggered_by, run.updated = run.attempt + 1, None, by, self.now()
        context = {"inputs": run.inputs, "github": {"event": run.event_payload}}
        content = self._content(run.workflow.path, run.sha)
        jobs = {name: each for name, each in (content.get("jobs") or {}).items() if job in {"", name}}
        self._wait(run, environments({**content, "jobs": jobs}, context, self._called))

    def _wait(self, run: Run, names: Sequence[str]) -> None:
        """Let a run wait for those of its environments that have reviewers; or fail where its branch is kept out."""
        known = [self.environments[name] for name in names if name in self.environments]
        run.waits_for = [environment.name for environment in known if environment.reviewers]
        run.status = "waiting" if run.waits_for else "queued"
        protected = not self.protections or run.branch in self.protections  # where no branch is, GitHub lets all in
        allowed = {None: True, "protected": protected, "custom": run.branch == self.default_branch}
        if not all(allowed[environment.branches] for environment in known):
            self.complete(run.id, "failure")

    def cancel(self, identity: int) -> None:
        """Cancel a run.

        Raises:
            Refused: it is over.
        """
        if self.run(identity).status == DONE:
            raise Refused(409, "Cannot cancel a workflow run that is completed.")
        self.complete(identity, "cancelled")

    def may_answer(self, run: Run, environment: str, by: str) -> bool:
        """Return whether somebody may answer for an environment that a run waits for."""
        rule = self.environments[environment]
        people = set(rule.reviewers)
        people |= {m for name in rule.reviewers if "/" in name for m in self.forge.teams[name].members}
        return by in people and not (rule.prevent_self_review and by in {run.actor, run.triggered_by})

    def answer(self, identity: int, by: str, *, approved: bool = True, comment: str = "") -> None:
        """Approve or reject what a run waits for.

        Raises:
            Refused: it waits for nothing, or not for this person.
        """
        run = self.run(identity)
        if not run.waits_for:
            raise Refused(422, "There are no pending deployment requests to approve or reject")
        if not all(self.may_answer(run, name, by) for name in run.waits_for):
            raise Refused(422, "You are not authorized to approve or reject this deployment")
        state = "approved" if approved else "rejected"
        run.decisions.append(Decision(by, state, tuple(run.waits_for), comment, self.now()))
        run.waits_for, run.status, run.updated = [], "queued", self.now()
        if not approved:
            self.complete(identity, "failure")

    def _content(self, path: str, ref: str = "HEAD") -> dict[str, Any]:
        text = self.read(path, ref or "HEAD") or self.read(path)
        return parsed(text or b"")

    def _headline(self, branch: str) -> str:
        commit = self.resolve(branch)
        return self.objects.commits[commit].message.partition("\n")[0] if commit else ""

    def _called(self, uses: str) -> dict[str, Any] | None:
        """Return the workflow that a job calls, where it is in a repository of this forge."""
        place, _, ref = uses.partition("@")
        if place.startswith("./"):
            text = self.read(place.removeprefix("./"))
        else:
            owner, name, path = [*place.split("/", 2), "", ""][:3]
            other = self.forge.repositories.get(f"{owner}/{name}")
            text = (other.read(path, ref) or other.read(path)) if other else None
        return parsed(text) if text else None
