"""Draws one job: its head with verdict and buttons, the tabs, and what the chosen tab shows."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final
from urllib.parse import urlencode

from pumice.ui.html.attempts import attempts_card
from pumice.ui.html.frame import copyable, document
from pumice.ui.html.logs import logs_card
from pumice.ui.html.many_pods import cells_card, many_timeline_card
from pumice.ui.html.marks import TICKS_TO, icon, outcome_mark, phase
from pumice.ui.html.plots import against_card, resources_card
from pumice.ui.html.pods import pods_card
from pumice.ui.html.policies import events_card, policies_panel
from pumice.ui.html.rendered import rendered_panel
from pumice.ui.html.text import Child, Html, ago, duration, file_name, join, plural, tag, time_tag
from pumice.ui.html.timeline import timeline_card
from pumice.ui.html.waiting import waiting_panel
from pumice.ui.values import Action, Group, Job, Verdict
from pumice.ui.views import OVERVIEW, TABS, ActionView, ErrorView, JobView

ICONS: Final = {"again": "restart"}
GROUPS: Final = 3  # of followers that are named
LATER: Final = 30.0  # seconds: what failed after that did not follow at once
TASKS: Final = 4  # that are named in the head
NAMED: Final = 8  # followers of a group that are named


def page(view: JobView) -> str:
    """Return the whole page."""
    main = tag(
        "div.view",
        tag("div", _head(view), id="head"),
        tag("div.tabs", _tabs(view), id="tabs"),
        tag("div", _panel(view), id="panel"),
        data_tab=view.tab,
    )
    return document(
        view.frame,
        view.job.run,
        main,
        view="job",
        uid=view.job.uid,
        run=view.job.run,
        tab=view.tab,
        attempt=str(view.attempt),
    )


def _head(view: JobView) -> Html:
    job = view.job
    return join(
        tag(
            "nav.crumb",
            tag("a", tag("span", "←", aria_hidden="true"), " Jobs", href="/"),
            " ",
            tag("kbd", "esc"),
            aria_label="You are here",
        ),
        tag(
            "div.jh",
            tag("div.grow", tag("h1", tag("span.name", job.run), " ", phase(job.phase)), tag("div.meta", _facts(view))),
            tag("div.acts", [_button(job, action) for action in job.actions]),
        ),
        _verdict(view),
    )


def _since(job: Job, now: dt.datetime) -> Html:
    """Return since when the job is as it is: `ended 2 h ago`."""
    word, moment = ("began", job.started) if job.started else ("created", job.created)
    if job.group is Group.SUSPENDED:
        word, moment = "suspended", job.since
    elif job.finished:
        word, moment = "ended", job.finished
    return join(f"{word} ", time_tag(moment, ago(moment, now), "ago"))


def _facts(view: JobView) -> list[Html]:
    job, now = view.job, view.frame.info.now
    facts: list[Child] = [_since(job, now)]
    if job.ran is not None and (job.finished or job.group is Group.SUSPENDED):
        facts.append(join("ran ", tag("b", duration(job.ran))))
    if job.waited is not None and job.waited >= 1 and job.started:
        facts.append(join("waited ", tag("b", duration(job.waited))))
    if job.deadline and not job.finished:
        facts.append(
            join(
                "ends by ",
                tag("b", f"~{job.deadline.astimezone():%H:%M}"),
                f" (line {job.deadline_line})" if job.deadline_line else None,
            )
        )
    total = sum(task.total for task in job.tasks)
    named = [f"{task.name} {task.total:,}" for task in job.tasks]
    tasks = ", ".join(named[:TASKS]) + (f" and {plural(len(named) - TASKS, 'more task')}" if len(named) > TASKS else "")
    facts.append(join(tag("b", f"{total:,}"), f" {'pod' if total == 1 else 'pods'}: {tasks}"))
    if job.group is Group.WAITING and job.min_available > 1:
        where = f", line {job.min_available_line}" if job.min_available_line else ""
        words = "all together" if job.min_available >= total else f"{job.min_available} of them together"
        facts.append(join(f"{words} (minAvailable {job.min_available}{where})"))
    if job.min_success is not None:
        where = f" (line {job.min_success_line})" if job.min_success_line else ""
        facts.append(join("minSuccess ", tag("b", f"{job.min_success:,}"), where))
    if len(job.attempts) > 1 or (job.budget and job.budget.spent):
        spent = f", {job.budget.spent} of {plural(job.budget.limit, 'retry', 'retries')} spent" if job.budget else ""
        facts.append(join(tag("b", len(job.attempts)), f" attempts{spent}"))
    if job.queue:
        facts.append(join("queue ", tag("b", job.queue)))
    if job.file:
        facts.append(tag("a", file_name(job.file), href="?tab=policies", title=job.file))
    return [tag("span", fact) for fact in facts]


def _button(job: Job, action: Action) -> Html:
    kind = "danger" if action.name == "delete" else "primary" if action.name == "resume" and action.allowed else None
    content = (icon(f"i-{ICONS.get(action.name, action.name)}"), action.label)
    if action.allowed:
        return tag(
            "a.btn",
            content,
            href=f"/jobs/{job.uid}/actions/{action.name}",
            class_=kind,
            data_action=action.name,
            role="button",
        )
    return tag(
        "button.btn",
        content,
        type="button",
        class_=kind,
        aria_disabled="true",
        data_tip=action.why_not,
        title=action.why_not,
    )


def _verdict(view: JobView) -> Html:
    job = view.job
    if job.waiting is not None and job.group is Group.WAITING:
        words = job.waiting.text or job.message
        head, dot, rest = words.partition(". ")
        return tag(
            "section.card.verdict.wait",
            tag(
                "h2",
                head + ("." if dot or not head.endswith(".") else ""),
                tag("span.after", f" {rest}") if rest else None,
            ),
            aria_label="Why it waits",
        )
    verdict = job.verdict
    if verdict is None or not verdict.text or job.group is Group.SUSPENDED:
        kind = {Group.ACTIVE: "run", Group.DONE: "ok", Group.SUSPENDED: "hold", Group.FAILED: ""}.get(job.group, "wait")
        return tag(
            "section.card.verdict",
            tag("h2", job.text or job.message or job.phase),
            class_=kind or None,
            aria_label="Now",
        )
    failed = job.group is Group.FAILED or verdict.pod
    kind = "warn" if job.is_active and failed else "run" if job.is_active else "" if failed else "ok"
    # Of a run that goes on, the sentence of the list says more: how many failed, run and wait.
    goes_on = job.is_active and bool(verdict.pod) and bool(job.text)
    head, _, rest = (job.text if goes_on else verdict.text).partition(". ")
    after = rest if goes_on else rest or _others(verdict)
    counted = re.search(r"(?<![\w-])\d[\d,]* failed[^(,;]*", head)  # a number of pods, not that of `worker-3 failed`
    begin, end = counted.span() if counted else (0, 0)
    said = join(head[:begin], tag("span.c-fail", head[begin:end]) if counted else None, head[end:])
    title = tag("h2", said, "." if after else None, tag("span.after", f" {after}") if after else None)
    return tag(
        "section.card.verdict",
        title,
        tag("dl.facts", _verdict_facts(job, verdict)),
        class_=kind or None,
        aria_label="Verdict",
    )


def _others(verdict: Verdict) -> str:
    count = len(verdict.followers)
    if not count or not verdict.pod:
        return ""
    if any(each.delay is not None and each.delay > LATER for each in verdict.followers):
        return f"{plural(count, 'more pod')} failed later."
    return (
        f"The other {plural(count, 'pod')} only followed."
        if count > 1
        else f"{verdict.followers[0].pod} only followed."
    )


def followers_words(verdict: Verdict) -> str:
    """Return `master-0 (exit code 1, 0.3 s later) and worker-0 to worker-6 (exit code 1, 0.4 to 0.9 s later)`."""
    groups: dict[tuple[str, str], list[tuple[str, float | None]]] = {}
    for each in verdict.followers:
        groups.setdefault((each.pod.rpartition("-")[0], each.exit), []).append((each.pod, each.delay))
    parts = []
    for (task, exit_words), members in groups.items():
        delays = [delay for _, delay in members if delay is not None]
        later = ""
        if delays:
            low, high = duration(min(delays)), duration(max(delays))
            later = f", {high} later" if low == high else f", {low.removesuffix(' s')} to {high} later"
        names = (
            members[0][0]
            if len(members) == 1
            else f"{task}-" + ", ".join(pod.rpartition("-")[2] for pod, _ in members[:NAMED])
        )
        more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
        parts.append(f"{names}{more} ({exit_words}{later})")
    return "; ".join(parts[:GROUPS]) + (f"; {len(parts) - GROUPS} more groups" if len(parts) > GROUPS else "")


def _verdict_facts(job: Job, verdict: Verdict) -> Html:
    rows: list[tuple[str, Child]] = []
    if verdict.last_line or verdict.cause:
        rows.append(("last line", tag("pre", verdict.last_line or verdict.cause)))
    if verdict.followers:
        rows.append(("then", followers_words(verdict)))
    if verdict.before:
        rows.append(("before", tag("b", verdict.before)))
    if verdict.policy:
        policy = verdict.policy
        where: Child = (
            tag("a", f"{file_name(policy.file or job.file)}:{policy.line}", href=f"?tab=policies#line-{policy.line}")
            if policy.line
            else None
        )
        spent = f"; {job.budget.spent} of {plural(job.budget.limit, 'retry', 'retries')} spent" if job.budget else ""
        rows.append(
            (
                "policy",
                join(f"{policy.text.replace('->', '→')} ({policy.path}", ", " if where else None, where, ")", spent),
            )
        )
    if verdict.next:
        rows.append(("next", copyable(verdict.next, "span.copy.inline")))
    return join([join(tag("dt", name), tag("dd", words)) for name, words in rows])


def _tabs(view: JobView) -> Html:
    job = view.job
    numbers = {"events": f"{job.events:,}" if job.events else "", "policies": f"{job.fired} fired" if job.fired else ""}
    links = [
        tag(
            "a",
            words,
            tag("span.n", f" {numbers[name]}") if numbers.get(name) else None,
            href=f"?{urlencode({'tab': name, 'attempt': view.attempt} if view.attempt else {'tab': name})}",
            id=f"tab-{name}",
            aria_current="page" if view.tab == name else None,
            data_tab=name,
        )
        for name, words in TABS.items()
    ]
    return join(
        tag("nav.tablist", links, aria_label="Parts of the job"),
        tag("div.right", _attempt_choice(view)) if len(job.attempts) > 1 else None,
    )


def _attempt_choice(view: JobView) -> Child:
    shown = view.job.attempts[-6:]
    links = [
        tag(
            "a",
            outcome_mark(each.outcome),
            each.number,
            href=f"?{urlencode({'tab': view.tab, 'attempt': each.number})}",
            aria_current="true" if view.attempt == each.number else None,
            aria_label=f"Attempt {each.number}, {each.outcome}",
            data_attempt=each.number,
        )
        for each in shown
    ]
    every = tag(
        "a",
        "all",
        href=f"?{urlencode({'tab': view.tab, 'attempt': 0})}",
        aria_current="true" if view.attempt == 0 else None,
        data_attempt=0,
    )
    return join("Attempt ", tag("span.seg", links, every, role="group", aria_label="Attempt"))


def _panel(view: JobView) -> Html:
    job = view.job
    if view.tab == "resources" and view.metrics:
        return resources_card(job, view.metrics, view.pods)
    if view.tab == "rendered" and view.rendered:
        return rendered_panel(job, view.rendered)
    if view.tab == "events" and view.events:
        return events_card(job, view.events)
    if view.tab == "policies" and view.policies:
        return policies_panel(job, view.policies, view.file)
    if view.tab != OVERVIEW:
        return tag("section.card", tag("div.body", tag("p", tag("b", "Nothing is recorded here yet."))))
    return _overview(view)


def _overview(view: JobView) -> Html:
    job = view.job
    logs = logs_card(view)
    if job.group is Group.WAITING and job.waiting is not None:
        return waiting_panel(job, job.waiting, logs)
    stack: list[Html] = []
    if view.pods:
        stack.append(
            cells_card(job, view.pods, view.timeline, view.chosen.pod)
            if view.pods.total > TICKS_TO
            else pods_card(job, view.pods, view.chosen.pod)
        )
    if view.metrics:
        stack.append(against_card(job, view.metrics))
    if len(job.attempts) > 1:
        stack.append(attempts_card(job))
    timeline = view.timeline
    picture: Child = None
    if timeline is not None:
        many = timeline.total > TICKS_TO
        picture = (
            many_timeline_card(job, timeline)
            if many
            else timeline_card(job, timeline, view.pods.items if view.pods else (), view.attempt)
        )
    return join(picture, tag("div.cols", tag("div.stack", stack), logs))


def action(view: ActionView) -> str:
    """Return the page that asks whether to act, for browsers without the script."""
    plan = view.plan
    rows = [
        ("now", plan.now),
        ("phase", " → ".join(plan.phases)),
        ("note", plan.remark),
        ("frees", plan.frees),
        ("kept", plan.kept),
        ("same as", plan.command),
    ]
    form = tag(
        "form.dlg",
        tag("h1.ask", plan.title),
        tag("div.banner.w", tag("div", view.refused)) if view.refused else None,
        tag("ul", [tag("li", tag("b", name), tag("span", words)) for name, words in rows if words]),
        tag("p", tag("b", "Not possible: "), plan.why_not) if not plan.allowed else None,
        tag("input", type="hidden", name="token", value=view.frame.token),
        tag(
            "div.row",
            tag("a.btn", "Cancel", href=f"/jobs/{view.job.uid}"),
            tag("button.btn", plan.button, class_="danger solid" if plan.danger else "primary")
            if plan.allowed
            else None,
        ),
        method="post",
        action=f"/jobs/{view.job.uid}/actions/{plan.name}",
    )
    return document(view.frame, plan.title, tag("div.card.asked", form), view="action")


def error(view: ErrorView) -> str:
    """Return the page that says what is wrong with the request."""
    body = tag("div.body", tag("p", tag("b", view.message)), tag("p", tag("a", "All jobs", href="/")))
    return document(
        view.frame, view.title, tag("section.card.asked", tag("header", tag("h1.ask", view.title)), body), view="error"
    )
