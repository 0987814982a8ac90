"""Plays a scenario, written as a person would, on a small job; and gives the story as text."""

from __future__ import annotations

import asyncio
from typing import Any

import yaml

from pumice.admission.admit import Admitted, admit
from pumice.engines.memory.event_log import texts
from pumice.engines.memory.expectations import Outcome
from pumice.engines.memory.scenario import Scenario
from pumice.engines.memory.scenario_reader import ScenarioReader
from pumice.engines.memory.simulation import WORK, Simulation
from pumice.model.job import Manifest
from tests.builders import a_container, a_context, a_document, a_template


def a_task(name: str = "worker", replicas: int = 2, **fields: Any) -> Manifest:
    template = a_template(a_container(name), restartPolicy="Never")
    return {"name": name, "replicas": replicas, "template": template, **fields}


def admitted(*tasks: Manifest, **spec: Any) -> Admitted:
    found = admit(a_document(tasks=list(tasks) or [a_task()], **spec), a_context())
    assert found.is_good, found.findings
    return found


def scenario(text: str, job: Admitted) -> Scenario:
    reader = ScenarioReader(job.job, job.plugins)
    read = reader.read(yaml.safe_load(text))
    assert reader.findings == []
    return read


def played(text: str, job: Admitted | None = None, work: int = WORK) -> tuple[Simulation, list[Outcome]]:
    job = job or admitted()
    simulation = Simulation(job, scenario(text, job), a_context(), work)
    return simulation, asyncio.run(simulation.run())


def story(text: str, job: Admitted | None = None, work: int = WORK) -> list[str]:
    """Without the padding, which is tested once."""
    simulation, _ = played(text, job, work)
    return [" ".join(line.split()) for line in texts(simulation.story.lines)]
