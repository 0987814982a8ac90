"""Builds docs/guides/zh/permissions.md, the Chinese version of the page that `docs_permissions` builds.

A reason without a translation is a KeyError, so that both pages stay complete.
"""

from __future__ import annotations

from pumice.engines.kubernetes.install.permissions import GRANTS, Component, Grant
from scripts.docs_permissions import kind
from scripts.docs_text import code, table

REASONS = {
    "watches jobs; deletes a job when ttlSecondsAfterFinished has passed": (
        "监视作业；超过 ttlSecondsAfterFinished 后删除作业"
    ),
    "writes the status of jobs": "写入作业的状态",
    "sets jobs as owners of pods and other objects, also where OwnerReferencesPermissionEnforcement is on": (
        "把作业设为 Pod 和其他对象的属主，在启用 OwnerReferencesPermissionEnforcement 时也可以"
    ),
    "executes Commands, then deletes them": "执行 Command，然后删除它们",
    "runs the pods of jobs": "运行作业的 Pod",
    "keeps the last lines of the first failed pod of each attempt in a Secret of the job": (
        "把每次尝试中最先失败的 Pod 的最后几行日志保存在作业的 Secret 中"
    ),
    "manages host names and host lists of jobs": "管理作业的主机名和主机列表",
    "manages the NetworkPolicy of jobs that request one": "为需要的作业管理 NetworkPolicy",
    "creates and deletes the key pair of jobs that use ssh; never lists or reads Secrets": (
        "为使用 ssh 的作业创建和删除密钥对；从不列出或读取 Secret"
    ),
    "creates the claims that a job describes": "创建作业描述的 claim",
    "records events of jobs": "记录作业的事件",
    "orders the tasks of a job by priority": "按优先级给作业的任务排序",
    "informs Volcano's scheduler which pods start together": ("告知 Volcano 的调度器哪些 Pod 一起启动"),
    "informs Kubernetes' own scheduler which pods start together": ("告知 Kubernetes 自带的调度器哪些 Pod 一起启动"),
    "informs the coscheduling plugin which pods start together": ("告知 coscheduling 插件哪些 Pod 一起启动"),
    "leader election": "领导者选举",
    "creates this Lease; finds the Leases of controllers that serve single namespaces": (
        "创建这个 Lease；查找只服务单个命名空间的控制器的 Lease"
    ),
    "shares its certificates between its replicas, and renews them when they are removed": (
        "在副本之间共享证书，证书被删除时重新生成"
    ),
    "publishes its certificate authority to the API server, and sets failurePolicy": (
        "向 API server 公布它的证书颁发机构，并设置 failurePolicy"
    ),
    "warns of fields that the cluster's definition of Job drops": "对集群的 Job 定义会丢弃的字段给出警告",
    "checks that the queue of a job exists and is open": "检查作业的队列存在并且开放",
}

INTRODUCTION = """\
# 权限

[English](../permissions.md) · [全部指南](README.md)

`pumice install` 创建两个 ServiceAccount。它们的角色没有通配符，也不授予代码不需要的任何权限。以下表格与角色由同一份列表生成，测试也恰好以这些权限运行。

"""

SECRETS = """\
## Secret

对于使用 `ssh` 插件的作业，控制器创建密钥对，并随作业一起删除。它不能 get、list 或 watch Secret。要知道作业的 Secret 是否还在，
它向自己选定的那一个名字发送一个不改变任何内容的 dry-run patch。

使用 `pumice install --keep-log-tails` 时，它对每个重启过的作业的 Secret `JOB-log-tails` 也这样做。这个选项默认关闭，因为它允许控制器读取所有 Pod 的日志。
该 Secret 保存失败 Pod 的最后几行：可以读取命名空间中 Secret 的人都能读到它们。

这种保护有限度：patch 的应答中含有该对象。攻击者如果有控制器的令牌，又知道 Secret 的名字，就可以通过 patch 读取它，也可以覆盖它，但无法查出名字。
要连这一点也排除，请只服务部分命名空间（`--namespace`），并在每个命名空间用 Role 代替 ClusterRole。

与所有管理工作负载的控制器一样，它可以创建 Pod，因此能把命名空间中的任何 Secret 挂载到 Pod 里，正如任何可以在那里创建 Pod 的用户一样。

## 令牌被盗会怎样

{stolen}

策略（Gatekeeper、Kyverno、Pod Security admission）对控制器创建的 Pod 同样有效。不要豁免控制器的 ServiceAccount：
任何可以创建 Job 的用户都会因此得到豁免。

`/metrics` 不需要认证。它显示数量和队列的名字，不显示单个作业的内容。它有自己的端口，可以为它编写 NetworkPolicy；
`pumice install --network-policy` 会打印一个。

## 更少的命名空间

`pumice controller --namespace a --namespace b` 只服务这些命名空间。把 ClusterRole `pumice-controller` 的规则复制到其中每个命名空间的 Role，
但 `priorityclasses` 除外，它属于整个集群；然后删除 ClusterRoleBinding。没有 `priorityclasses` 控制器也能工作；这时它在计算 gang 的最小资源时忽略优先级。

每个命名空间有一个 Lease：`pumice-controller-a`，依此类推；控制器持有 Lease 期间服务该命名空间。因此多个控制器的命名空间可以重叠：没有作业会被两个控制器服务。
服务所有命名空间的控制器持有 Lease `pumice-controller`，它优先：只服务单个命名空间的控制器在几秒之内转为备用，然后它才开始。`kube-system` 中的 Role 只列出
`pumice-controller`；请加上 `pumice-controller-a` 等。没有权限使用其 Lease 的控制器会结束，并写明所缺的权限。集群外的控制器需要对 `kube-system` 中的 Lease
有同样的权限。

## 给用户的权限

Pumice 带 `--on` 的命令需要 [examples/roles](../../../examples/roles/cluster-user.yaml) 中的角色：`pumice-viewer` 用于读取，`pumice-runner` 用于运行和改变作业，
`pumice-cluster-viewer` 用于共享的对象。使用 kubectl 和 `vcctl` 时，用户需要在自己的命名空间中对 `jobs.batch.volcano.sh` 有 `create`、`get`、`list`、`watch`、`update`、`patch` 和 `delete`，
要挂起作业，还需要对 `commands.bus.volcano.sh` 有 `create`。可以创建 Job 的用户能以命名空间中的任何 ServiceAccount 运行任何 Pod，并读取其中的 Secret，
与有权创建 Pod 完全一样。
"""

STOLEN = (
    (
        "控制器",
        (
            "在所服务的命名空间中运行任何 Pod，从而使用那里的每个 ServiceAccount、Secret 和卷；删除 Pod 和 Job；"
            "覆盖 Service、ConfigMap 和 NetworkPolicy；读取或覆盖名字已知的 Secret"
        ),
        "列出 Secret，或改变角色、节点、CRD 和 webhook；使用 `--namespace` 时，触及任何其他命名空间",
    ),
    (
        "webhook",
        (
            "把 Job 的准入请求转到自己的服务器，从而读取、修改或拒绝每个 Job；改变配置的规则之后，"
            "看到客户端发给 API server 的每个对象；读取 webhook 的私钥"
        ),
        "创建 Pod，或以其他方式读取 Secret",
    ),
    (
        "可以创建 Job 的用户",
        (
            "通过控制器在该命名空间中创建 Pod、Service、ConfigMap、NetworkPolicy 和 PersistentVolumeClaim，"
            "即使没有直接创建它们的权限"
        ),
        "影响其他命名空间，或不属于自己的 Job 的对象",
    ),
)


def page() -> str:
    stolen = table(("谁的令牌", "盗用者能够", "但不能"), STOLEN).strip()
    tables = _section("控制器", "controller") + _section("webhook", "webhook")
    return INTRODUCTION + tables + SECRETS.replace("{stolen}", stolen)


def _section(title: str, component: Component) -> str:
    rows = [_row(grant) for grant in GRANTS if grant.component == component]
    return f"## {title}\n\n{table(('对象', '操作', '范围', '原因'), rows)}\n"


def _row(grant: Grant) -> tuple[str, str, str, str]:
    kinds = "、".join(code(kind(resource, grant.group)) for resource in grant.resources)
    named = f"，名为 {'、'.join(map(code, grant.resource_names))}" if grant.resource_names else ""
    where = "它自己的命名空间" if grant.own_namespace else code(grant.namespace) if grant.namespace else "所有命名空间"
    gangs = f"；仅用于 `--gang` {' 或 '.join(grant.gangs)}" if grant.gangs else ""
    tails = "；仅用于 `--keep-log-tails`" if grant.log_tails else ""
    return kinds + named, ", ".join(grant.verbs), where, REASONS[grant.reason] + gangs + tails
