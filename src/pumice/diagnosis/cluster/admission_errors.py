"""Errors with which an API server refuses objects, read from their text: it says nothing of them in any other form.

A text that none of the patterns knows is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from pumice.diagnosis.cluster.objects import quantities
from pumice.diagnosis.cluster.reading import Cause, amount, shortage, shortage_text
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.why import EvidenceLine, Hint, Shortage, WhyCode
from pumice.model.quantity import Quantity

# `cpu=2,memory=4Gi`
_LIST: Final = r"([^\s,=]+=[^\s,]+(?:,[^\s,=]+=[^\s,]+)*)"
_QUOTA: Final = re.compile(
    rf"(?:exceeded quota: (\S+)|resource quota insufficient), requested: {_LIST}, used: {_LIST}, limited: {_LIST}"
)
_QUOTA_NEEDS: Final = re.compile(r"failed quota: (\S+): must specify (.+)")
_LIMIT_RANGE: Final = re.compile(
    r"(minimum|maximum) (\S+) usage per (Container|Pod) is ([^\s,]+?)[,.]\s+(?:but (request|limit) is ([^\s,\]]+)"
    r"|No (request|limit) is specified)"
)
_RATIO: Final = re.compile(r"(?<!\S)\S+ max limit to request ratio per (?:Container|Pod) is \S+, but [^\],]+")
_POD_SECURITY: Final = re.compile(r'violates PodSecurity "([^"]+)": (.+)')
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request(?:: (.+)| without explanation)')
_WEBHOOK_FAILED: Final = re.compile(r'failed calling webhook "([^"]+)": (.+)')
_ERRORS: Final = re.compile(r"Error creating pods: \[(.+)\]")
_BEGINNING: Final = 12
_LONGEST: Final = 16_384  # characters of a text that any webhook may write
_ACCOUNT: Final = re.compile(r'error looking up service account ([^/\s]+)/[^:\s]+: serviceaccount "([^"]+)" not found')
_PRIORITY: Final = re.compile(r"no PriorityClass with name (\S+) was found")


def read_refusal(text: str, namespace: str) -> Cause | None:
    """Return what the text of an error means; None if no pattern knows it."""
    line = " ".join(text[:_LONGEST].split())
    if (errors := _ERRORS.fullmatch(line)) is not None:
        # The list that Volcano's controller writes for the pods that it cannot create. All errors are about the pods of
        # one Job, so they begin alike, and nothing else separates them: the first one counts.
        another = errors[1].find(f" {errors[1][:_BEGINNING]}", 1)
        line = errors[1] if another < 0 else errors[1][:another]
    for pattern, read in _READERS:
        match = pattern.search(line)
        if match is not None and (refusal := read(match, namespace)) is not None:
            return refusal
    return None


def refusal_sentence(text: str, namespace: str) -> str:
    """Return what an error means, in the words of `pumice why`; a text that no pattern knows stays as it is."""
    refusal = read_refusal(text, namespace)
    return text if refusal is None else refusal.message


def _quota(match: re.Match[str], namespace: str) -> Cause | None:
    name, requested, used, limited = (
        match[1] or "",
        *(quantities(dict(part.split("=", 1) for part in match[number].split(","))) for number in (2, 3, 4)),
    )
    short = tuple(
        shortage(resource, wanted, limited[resource] - used.get(resource, Quantity()), limited[resource])
        for resource, wanted in requested.items()
        if resource in limited and used.get(resource, Quantity()) + wanted > limited[resource]
    )
    if not short:
        return None
    quota = f"ResourceQuota {name}" if name else f"a ResourceQuota of namespace {namespace}"
    texts = "; ".join(map(shortage_text, short))
    line = EvidenceLine(kind="ResourceQuota", name=name, field="spec.hard", text=texts)
    return Cause(
        code=WhyCode.QUOTA,
        message=f"{quota} has no room: {texts}",
        evidence=(line,),
        hints=tuple(_smaller(short)),
        short=short,
    )


def _smaller(short: tuple[Shortage, ...]) -> Iterator[Hint]:
    """Say which request would fit: now, or ever."""
    for each in short:
        if Quantity.parse(each.wanted) > Quantity.parse(each.capacity):
            most = amount(each.resource, each.capacity)
            yield Hint(f"it never fits: the quota grants at most {most} of {each.resource}")
        elif not (free := Quantity.parse(each.free)).is_zero:
            yield Hint(f"a pod that asks for at most {amount(each.resource, free)} of {each.resource} fits now")
        else:
            yield Hint(f"it fits when other pods of the namespace free {each.resource}")


def _quota_needs(match: re.Match[str], _namespace: str) -> Cause:
    quota, needs = match[1], in_words("", match[2])
    message = f"ResourceQuota {quota} wants requests or limits that the pods do not have: {needs}"
    line = EvidenceLine(kind="ResourceQuota", name=quota, field="spec.hard", text=needs)
    return _refused(message, line, Hint("set them in the resources of every container"), WhyCode.QUOTA)


def _limit_range(match: re.Match[str], namespace: str) -> Cause:
    bound, resource, scope, amount_, field, value, unset = match.groups()
    fact = f"but {field} is {value.rstrip('.')}" if field else f"no {unset} is set"
    rule = f"{bound} {resource} per {scope} is {amount_}, {fact}"
    most = "at most" if bound == "maximum" else "at least"
    line = EvidenceLine(kind="LimitRange", name="", field="spec.limits", text=rule)
    hint = Hint(f"set the {field or unset} of {resource} to {most} {amount_}")
    return _refused(f"a LimitRange of namespace {namespace} refuses the pods: {rule}", line, hint)


def _ratio(match: re.Match[str], namespace: str) -> Cause:
    line = EvidenceLine(kind="LimitRange", name="", field="spec.limits", text=match[0])
    hint = Hint("bring the limit nearer to the request")
    return _refused(f"a LimitRange of namespace {namespace} refuses the pods: {match[0]}", line, hint)


def _pod_security(match: re.Match[str], namespace: str) -> Cause:
    level, violations = match[1], in_words("", match[2])
    label = "metadata.labels[pod-security.kubernetes.io/enforce]"
    line = EvidenceLine(kind="Namespace", name=namespace, field=label, text=level.partition(":")[0])
    hint = Hint("set these fields in the pod templates, or use a namespace of a lower level")
    return _refused(f"PodSecurity {level} of namespace {namespace} refuses the pods: {violations}", line, hint)


def _denied(match: re.Match[str], _namespace: str) -> Cause:
    name, why = match[1], in_words("", match[2] or "without explanation")
    line = EvidenceLine(kind="AdmissionWebhook", name=name, field="", text=why)
    hint = Hint("change what it names, or ask the owner of the webhook")
    return _refused(f"admission webhook {name} refuses the pods: {why}", line, hint)


def _webhook_failed(match: re.Match[str], _namespace: str) -> Cause:
    name, why = match[1], in_words("", match[2])
    line = EvidenceLine(kind="AdmissionWebhook", name=name, field="", text=why)
    message = f"admission webhook {name} does not answer, so no pod can be created: {why}"
    return _refused(message, line, Hint("ask its owner to repair it"))


def _account(match: re.Match[str], _namespace: str) -> Cause:
    namespace, name = match[1], match[2]
    line = EvidenceLine(kind="ServiceAccount", name=name, field="", text=f"not found in {namespace}")
    hint = Hint("to create it", f"kubectl create serviceaccount {name} -n {namespace}")
    return _refused(f"ServiceAccount {name} does not exist", line, hint)


def _priority(match: re.Match[str], _namespace: str) -> Cause:
    line = EvidenceLine(kind="PriorityClass", name=match[1], field="", text="not found")
    hint = Hint("to see which exist", "kubectl get priorityclasses")
    return _refused(f"PriorityClass {match[1]} does not exist", line, hint)


def _refused(message: str, line: EvidenceLine, hint: Hint, code: WhyCode = WhyCode.ADMISSION) -> Cause:
    """`line` is about the object that refuses, or that is missing."""
    return Cause(code=code, message=message, evidence=(line,), hints=(hint,))


_READERS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Cause | None]], ...]] = (
    (_QUOTA, _quota),
    (_QUOTA_NEEDS, _quota_needs),
    (_LIMIT_RANGE, _limit_range),
    (_RATIO, _ratio),
    (_POD_SECURITY, _pod_security),
    (_DENIED, _denied),
    (_WEBHOOK_FAILED, _webhook_failed),
    (_ACCOUNT, _account),
    (_PRIORITY, _priority),
)
