from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.podtemplate import check_template
from pumice.engines.kubernetes.install.manifests import InstallOptions, manifests
from pumice.model.findings import ROOT
from pumice.runtime.kubernetes_types import kubernetes_types

TYPES = kubernetes_types().types
Manifest = dict[str, Any]


def printed(**options: Any) -> list[Manifest]:
    return list(manifests(InstallOptions(image="pumice:test", **options)))


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in objects if each["kind"] == kind]


def test_order_of_the_manifests() -> None:
    role = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    workload = ["Service", "Deployment", "PodDisruptionBudget"]
    assert [each["kind"] for each in printed()] == [
        "Namespace",
        *["CustomResourceDefinition"] * 2,
        *role,
        # In kube-system, for the Lease.
        "Role",
        "RoleBinding",
        *role,
        *workload,
        "Secret",
        *workload,
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]


def test_no_webhook_leaves_out_every_object_of_the_webhook() -> None:
    assert "webhook" not in str([each for each in printed(webhook=False) if each["kind"] != "CustomResourceDefinition"])


def test_every_object_is_in_the_requested_namespace() -> None:
    objects = printed(namespace="elsewhere")
    assert "pumice-system" not in str(objects)
    for binding in (*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")):
        assert [subject["namespace"] for subject in binding["subjects"]] == ["elsewhere"]


@pytest.mark.parametrize("deployment", of_kind(printed(), "Deployment"), ids=lambda each: each["metadata"]["name"])
class TestPods:
    def test_template_is_valid(self, deployment: Manifest) -> None:
        assert [str(found) for found in check_template(deployment["spec"]["template"], ROOT, TYPES)] == []

    def test_pod_has_no_privileges(self, deployment: Manifest) -> None:
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }

    def test_pod_has_no_volume_that_stops_a_drain(self, deployment: Manifest) -> None:
        pod = deployment["spec"]["template"]["spec"]
        assert "volumes" not in pod
        assert "volumeMounts" not in pod["containers"][0]

    def test_one_of_two_replicas_survives_a_disruption(self, deployment: Manifest) -> None:
        name = deployment["metadata"]["name"]
        (budget,) = [each for each in of_kind(printed(), "PodDisruptionBudget") if each["metadata"]["name"] == name]
        assert (deployment["spec"]["replicas"], budget["spec"]["minAvailable"]) == (2, 1)
        assert budget["spec"]["selector"] == deployment["spec"]["selector"]

    def test_service_selects_the_pods(self, deployment: Manifest) -> None:
        name, template = deployment["metadata"]["name"], deployment["spec"]["template"]
        (service,) = [each for each in of_kind(printed(), "Service") if each["metadata"]["name"] == name]
        assert service["spec"]["selector"] == template["metadata"]["labels"]
        (port,) = template["spec"]["containers"][0]["ports"]
        assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]

    def test_arguments_are_accepted_by_the_command(self, deployment: Manifest) -> None:
        import argparse
        import importlib

        command, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(f"pumice.cli.cluster.{command}").add_arguments(parser)
        parser.parse_args(flags)


def test_installed_webhooks_fail_closed_except_for_their_own_namespace() -> None:
    objects = printed(namespace="elsewhere")
    hooks = [of_kind(objects, f"{kind}WebhookConfiguration")[0]["webhooks"] for kind in ("Mutating", "Validating")]
    for (hook,) in hooks:
        assert hook["failurePolicy"] == "Ignore"
        assert hook["timeoutSeconds"] == 10
        assert hook["sideEffects"] == "None"
        (excluded,) = hook["namespaceSelector"]["matchExpressions"]
        assert (excluded["operator"], excluded["values"]) == ("NotIn", ["elsewhere", "kube-system"])
        assert "caBundle" not in hook["clientConfig"]


def test_the_namespace_enforces_the_restricted_level() -> None:
    (namespace,) = of_kind(printed(), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
