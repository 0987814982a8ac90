from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.podtemplate import check_template
from pumice.engines.kubernetes.install.manifests import Wishes, manifests
from pumice.engines.kubernetes.install.names import GANGS
from pumice.model.findings import ROOT
from pumice.runtime.kubernetes_types import kubernetes_types

TYPES = kubernetes_types().types
Manifest = dict[str, Any]


def made(**wishes: Any) -> list[Manifest]:
    return list(manifests(Wishes(image="pumice:test", **wishes)))


def kinds(objects: list[Manifest]) -> list[str]:
    return [each["kind"] for each in objects]


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in objects if each["kind"] == kind]


def test_the_order() -> None:
    role = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    workload = ["Service", "Deployment", "PodDisruptionBudget"]
    assert kinds(made()) == [
        "Namespace",
        *["CustomResourceDefinition"] * 2,
        *role,
        *role,
        *workload,
        "Secret",
        *workload,
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]


@pytest.mark.parametrize("gang", GANGS)
def test_the_same_wishes_give_the_same(gang: str) -> None:
    assert made(gang=gang) == made(gang=gang)
    assert len(of_kind(made(gang=gang), "CustomResourceDefinition")) == (4 if gang == "volcano" else 2)


def test_without_the_webhook_nothing_of_it_is_there() -> None:
    assert "webhook" not in str([each for each in made(webhook=False) if each["kind"] != "CustomResourceDefinition"])


def test_everything_is_in_the_namespace_that_was_asked_for() -> None:
    objects = made(namespace="elsewhere")
    assert "pumice-system" not in str(objects)
    for binding in (*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")):
        assert [subject["namespace"] for subject in binding["subjects"]] == ["elsewhere"]


@pytest.mark.parametrize("deployment", of_kind(made(), "Deployment"), ids=lambda each: each["metadata"]["name"])
class TestPods:
    def test_they_are_valid(self, deployment: Manifest) -> None:
        assert [str(found) for found in check_template(deployment["spec"]["template"], ROOT, TYPES)] == []

    def test_they_have_no_privileges(self, deployment: Manifest) -> None:
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }

    def test_there_are_two_and_one_stays(self, deployment: Manifest) -> None:
        name = deployment["metadata"]["name"]
        (budget,) = [each for each in of_kind(made(), "PodDisruptionBudget") if each["metadata"]["name"] == name]
        assert (deployment["spec"]["replicas"], budget["spec"]["minAvailable"]) == (2, 1)
        assert budget["spec"]["selector"] == deployment["spec"]["selector"]

    def test_the_service_leads_to_them(self, deployment: Manifest) -> None:
        name, template = deployment["metadata"]["name"], deployment["spec"]["template"]
        (service,) = [each for each in of_kind(made(), "Service") if each["metadata"]["name"] == name]
        assert service["spec"]["selector"] == template["metadata"]["labels"]
        (port,) = template["spec"]["containers"][0]["ports"]
        assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]

    def test_their_flags_are_understood(self, deployment: Manifest) -> None:
        import argparse
        import importlib

        command, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(f"pumice.cli.cluster.{command}").add_arguments(parser)
        parser.parse_args(flags)


def test_installed_webhooks_close_the_door_but_not_on_themselves() -> None:
    objects = made(namespace="elsewhere")
    hooks = [of_kind(objects, f"{kind}WebhookConfiguration")[0]["webhooks"] for kind in ("Mutating", "Validating")]
    for (hook,) in hooks:
        assert hook["failurePolicy"] == "Fail"
        assert hook["timeoutSeconds"] == 10
        assert hook["sideEffects"] == "None"
        (excluded,) = hook["namespaceSelector"]["matchExpressions"]
        assert (excluded["operator"], excluded["values"]) == ("NotIn", ["elsewhere", "kube-system"])
        assert "caBundle" not in hook["clientConfig"]


def test_the_namespace_is_restricted() -> None:
    (namespace,) = of_kind(made(), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
