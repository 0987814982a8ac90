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
    # The Role of the controller is in kube-system, for the Lease.
    role = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    workload = ["Service", "Deployment", "PodDisruptionBudget"]
    assert [each["kind"] for each in printed()] == [
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
        (container,) = template["spec"]["containers"]
        offered = {each["name"] for each in container["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= offered
        assert {
            container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("liveness", "readiness", "startup")
        } <= offered

    def test_metrics_have_a_port_of_their_own(self, deployment: Manifest) -> None:
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        (metrics,) = [each["containerPort"] for each in container["ports"] if each["name"] == "metrics"]
        assert f"--metrics-listen=0.0.0.0:{metrics}" in container["args"]
        assert f"--listen=0.0.0.0:{metrics}" not in container["args"]
        assert container["readinessProbe"]["httpGet"]["port"] != "metrics"

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


def test_network_policies_admit_reviews_only_from_the_api_server() -> None:
    assert of_kind(printed(), "NetworkPolicy") == []
    objects = printed(namespace="elsewhere", api_servers=("192.0.2.10/32", "2001:db8::/64"))
    policies = {each["metadata"]["name"]: each for each in of_kind(objects, "NetworkPolicy")}
    metrics = {"from": [{"namespaceSelector": {}}], "ports": [{"port": 8080, "protocol": "TCP"}]}
    api_servers = [{"ipBlock": {"cidr": "192.0.2.10/32"}}, {"ipBlock": {"cidr": "2001:db8::/64"}}]
    reviews = {"from": api_servers, "ports": [{"port": 9443, "protocol": "TCP"}]}
    assert {name: each["spec"]["ingress"] for name, each in policies.items()} == {
        "pumice-controller": [metrics],
        "pumice-webhook": [reviews, metrics],
    }
    for deployment in of_kind(objects, "Deployment"):
        policy = policies[deployment["metadata"]["name"]]
        assert policy["metadata"]["namespace"] == "elsewhere"
        assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]
        assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_without_a_webhook_there_is_one_network_policy() -> None:
    (policy,) = of_kind(printed(webhook=False, api_servers=("192.0.2.10/32",)), "NetworkPolicy")
    assert policy["metadata"]["name"] == "pumice-controller"
