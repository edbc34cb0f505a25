"""The workflows of the guide to notifications fit the action."""

from __future__ import annotations

import re

import pytest
import yaml

from ci_automation.action.workflow_commands import OUTPUTS
from tests.unit.docs.documents import notifying


@pytest.mark.parametrize("channel", notifying())
def test_a_message_is_made_of_outputs_that_exist(channel: str) -> None:
    text = notifying()[channel]
    jobs = yaml.safe_load(text)["jobs"]
    handed_on = jobs["flux"]["outputs"]
    read = set(re.findall(r"steps\.flux\.outputs\.([\w-]+)", str(handed_on)))
    assert read == handed_on.keys() <= {each.name for each in OUTPUTS}
    assert set(re.findall(r"needs\.flux\.outputs\.([\w-]+)", text)) == handed_on.keys()


@pytest.mark.parametrize("channel", notifying())
def test_the_job_that_sends_it_has_no_rights_and_no_value_in_a_script(channel: str) -> None:
    text = notifying()[channel]
    job = yaml.safe_load(text)["jobs"]["notify"]
    assert job["permissions"] == {}
    assert job["needs"] == "flux"
    assert all("uses" not in step and "${{" not in step["run"] for step in job["steps"])
    (schedule,) = re.findall(r"github\.event\.schedule == '([^']+)'", job["if"])
    assert {"cron": schedule} in yaml.safe_load(text)[True]["schedule"]
