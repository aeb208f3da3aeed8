import { maxContainers } from "@kip/agent-api";
import {
  differs,
  elsewhere,
  refused,
  refusedAs,
  works,
  type FieldDecisions,
} from "./field-decision.ts";
import {
  deadline,
  endMessage,
  inside,
  namesAndDebugging,
  namespacesAndMounts,
  containerMapping,
  gatedFields,
  nodeRules,
  podMapping,
  volumeMapping,
} from "./tests.ts";

const apiServer = "the API server";
const scheduler = "the scheduler";

/** Fields of the pod itself, and of its small parts. */
export const podSpecFields: Readonly<Record<string, FieldDecisions>> = {
  PodSpec: {
    activeDeadlineSeconds: works(deadline),
    affinity: elsewhere(`${scheduler}; what is required of nodes, for the node's admission too`),
    automountServiceAccountToken: elsewhere(apiServer),
    containers: works(podMapping, "Container", maxContainers),
    dnsConfig: works(inside, "PodDNSConfig"),
    dnsPolicy: works(
      "e2e/dns-policies.ts: are those of its machine for a pod with the policy Default",
    ),
    enableServiceLinks: works(inside),
    ephemeralContainers: works(
      "packages/cell-agent/src/state/plan.test.ts: adds a debugging container to a running pod",
      "EphemeralContainer",
      maxContainers,
    ),
    hostAliases: works(inside, "HostAlias"),
    hostIPC: works(namespacesAndMounts),
    hostNetwork: works(
      "e2e/cell-rights.test.ts: a pod with the cell's network has the cell's hosts file",
    ),
    hostPID: works(namespacesAndMounts),
    hostUsers: works(
      "e2e/security.test.ts: with hostUsers false is root only for itself, and owns its files, volumes and network",
    ),
    hostname: works(inside),
    hostnameOverride: works(gatedFields),
    imagePullSecrets: works(
      "packages/virtual-kubelet/src/pods/pull-secrets.test.ts: reads a Secret once, however often a pod names it",
      "LocalObjectReference",
    ),
    initContainers: works(
      "packages/cell-agent/src/state/plan.test.ts: starts init containers in order, then the others together",
      "Container",
      maxContainers,
    ),
    nodeName: elsewhere(scheduler),
    nodeSelector: works(
      `${nodeRules.admission}: refuses another system, by field, label and node selector`,
    ),
    os: works(
      `${nodeRules.admission}: refuses another system, by field, label and node selector`,
      "PodOS",
    ),
    overhead: works(`${nodeRules.sizes}: counts GPUs and the pod's overhead`),
    preemptionPolicy: elsewhere(scheduler),
    priority: elsewhere(scheduler),
    priorityClassName: elsewhere(apiServer),
    readinessGates: works(
      "packages/virtual-kubelet/src/status/pod-conditions.test.ts: waits for readiness gates, keeps transition times, and leaves out conditions of other writers",
      "PodReadinessGate",
    ),
    resourceClaims: refused(
      "cells do not have devices of claims; choose an instance type with the device",
    ),
    resources: works(
      "e2e/resources.test.ts: of the pod as a whole hold for its containers together",
      "ResourceRequirements",
    ),
    restartPolicy: works(endMessage),
    runtimeClassName: works(
      "packages/kip/src/admission/runtime-class.test.ts: refuses classes that do not exist, or whose handler cells do not have",
    ),
    schedulerName: elsewhere(scheduler),
    schedulingGates: elsewhere(scheduler),
    securityContext: works(inside, "PodSecurityContext"),
    serviceAccount: elsewhere(apiServer),
    serviceAccountName: works(inside),
    setHostnameAsFQDN: works(namesAndDebugging),
    shareProcessNamespace: works(inside),
    subdomain: works(namesAndDebugging),
    terminationGracePeriodSeconds: works(
      "packages/cell-agent/test/agent.int.test.ts: stops within the grace period, and sooner when asked again",
    ),
    tolerations: elsewhere(`${scheduler}, and controllers that evict pods`),
    topologySpreadConstraints: elsewhere(scheduler),
    volumes: works(volumeMapping, "Volume"),
  },
  PodDNSConfig: {
    nameservers: works(inside),
    options: works(inside, "PodDNSConfigOption"),
    searches: works(inside),
  },
  PodDNSConfigOption: {
    name: works(inside),
    value: works(inside),
  },
  HostAlias: {
    hostnames: works(inside),
    ip: works(inside),
  },
  LocalObjectReference: {
    name: works(
      "packages/virtual-kubelet/src/pods/pull-secrets.test.ts: reads a Secret once, however often a pod names it",
    ),
  },
  PodOS: {
    name: works(
      `${nodeRules.admission}: refuses another system, by field, label and node selector`,
    ),
  },
  PodReadinessGate: {
    conditionType: works(
      "packages/virtual-kubelet/src/status/pod-conditions.test.ts: waits for readiness gates, keeps transition times, and leaves out conditions of other writers",
    ),
  },
  PodSecurityContext: {
    appArmorProfile: refusedAs(
      "AppArmor",
      "Cannot enforce AppArmor: AppArmor is not enabled on the host. Unconfined is taken.",
    ),
    fsGroup: works(
      "e2e/cell-rights.test.ts: a user writes to the folders of a subPath of an emptyDir with fsGroup",
    ),
    fsGroupChangePolicy: differs(
      "Volumes are new on each cell, and belong to the group from the start: there is nothing to change.",
    ),
    runAsGroup: works(inside),
    runAsNonRoot: works(
      "packages/cell-agent/src/container/container-spec.test.ts: refuses root where the pod forbids it, in the kubelet's words",
    ),
    runAsUser: works(inside),
    seLinuxChangePolicy: differs(
      "Cells do not have SELinux: no effect, as on any node without it.",
    ),
    seLinuxOptions: differs("Cells do not have SELinux: no effect, as on any node without it."),
    seccompProfile: works(containerMapping.security, "SeccompProfile"),
    supplementalGroups: works(inside),
    supplementalGroupsPolicy: works(
      "packages/cell-agent/src/container/container-spec.test.ts: leaves the groups of the image out where the pod wants that",
    ),
    sysctls: works(inside, "Sysctl"),
    windowsOptions: elsewhere("nodes of Windows"),
  },
  SeccompProfile: {
    localhostProfile: works(
      "e2e/security.test.ts: with a Localhost profile may call what that says, and waits for a profile that is missing",
    ),
    type: works(containerMapping.seccomp),
  },
  Sysctl: {
    name: works(inside),
    value: works(inside),
  },
};
