import { defined } from "@kip/base";
import {
  limitSeconds,
  maxContainers,
  type DesiredContainer,
  type DesiredImageSettings,
  type DesiredLogs,
  type DesiredPod,
  type DesiredRegistry,
  type DesiredSeccompProfile,
  type DesiredVolume,
} from "@kip/agent-api";
import type { InstanceIpv6, RegistryLogIn } from "@kip/cloud";
import type { Container, Pod, Volume } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { ExpansionBudget, type LateAddresses } from "@kip/virtual-kubelet/environment";
import { qosClass } from "@kip/virtual-kubelet/status";
import { restartPolicy } from "../state/restart-policy.ts";
import { desiredContainer, pullPolicy } from "./desired-container.ts";
import { diskBytes, podStorageLimit } from "./ephemeral-storage.ts";
import { desiredHugePages } from "./huge-pages.ts";
import { desiredHostPorts } from "./host-ports.ts";
import { etcHosts, kernelHostname } from "./pod-network-files.ts";
import { isCritical, isNodeCritical } from "./pod-priority.ts";
import { mergeRegistries } from "./registries.ts";
import { resourceAmounts } from "./resource-amounts.ts";
import { resolvConf, type DnsSettings } from "./resolv-conf.ts";

const qosClasses = ["Guaranteed", "Burstable", "BestEffort"] as const;

/** Options of {@link desiredPod}. */
export interface DesiredPodContext {
  /** Address of the virtual node. */
  readonly nodeIp: string;
  readonly addresses: LateAddresses;
  /** The cell's IPv6 addresses. */
  readonly ipv6?: InstanceIpv6 | undefined;
  readonly dns: DnsSettings;
  /** See `DesiredPod.directRanges`. @default all packets keep the pod's address */
  readonly directRanges?: readonly string[] | undefined;
  /** See `DesiredPod.network`. */
  readonly network?: DesiredPod["network"];
  readonly registries: readonly DesiredRegistry[];
  /** The cloud's logins for its own registries, by host. */
  readonly logIns?: ReadonlyMap<string, RegistryLogIn> | undefined;
  readonly images?: DesiredImageSettings | undefined;
  readonly logs?: DesiredLogs | undefined;
  /** The profiles that its containers name. @default none */
  readonly seccompProfiles?: readonly DesiredSeccompProfile[] | undefined;
  /** The cell's resources for its pod. Undefined if not known. */
  readonly machine?: DesiredPod["machine"];
  /** Extended resources of the cell's type. @default none */
  readonly extendedResources?: DesiredPod["extendedResources"];
  /** Resources that the containers had on earlier cells, by name. @default none */
  readonly granted?: ReadonlyMap<string, NonNullable<Container["resources"]>>;
  /** See `DesiredPod.generation`. */
  readonly generation: number;
  /** See `DesiredPod.activeForMs`. */
  readonly activeForMs?: number | undefined;
  /** Names of containers that have ended on earlier cells and are not restarted. @default none */
  readonly ended?: ReadonlySet<string>;
}

/**
 * Converts a resolved pod to the document for its cell's agent.
 *
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if its expanded variables, commands and paths would be larger than any
 * document
 */
export function desiredPod(resolved: ResolvedPod, context: DesiredPodContext): DesiredPod {
  const { pod } = resolved;
  const { spec } = pod;
  const { addresses, dns } = context;
  // A common limit, because otherwise a few texts of a pod could exceed any memory before their size is checked.
  const budget = new ExpansionBudget();
  const container = (each: Parameters<typeof desiredContainer>[1]) =>
    withGranted(desiredContainer(resolved, each, addresses, budget), context);
  const goesOn = ({ name }: { readonly name: string }) => context.ended?.has(name) !== true;
  const hostNetwork = spec.hostNetwork === true;
  const podIp = addresses.podIPs[0] ?? "";
  return defined({
    ...podIdentity(pod),
    generation: context.generation,
    ...resourcesOf(pod),
    hugePages: desiredHugePages(pod),
    extendedResources: context.extendedResources,
    machine: context.machine,
    restartPolicy: restartPolicy(pod),
    hostname: kernelHostname(pod, dns.clusterDomain),
    hostNetwork,
    network: context.network,
    podIp: hostNetwork ? undefined : podIp,
    hostPorts: desiredHostPorts(pod, {
      cell: addresses.hostIPs,
      node: [context.nodeIp, ...(context.network?.nodeAddresses ?? [])],
    }),
    directRanges: hostNetwork ? undefined : context.directRanges,
    ipv6: desiredIpv6(context.ipv6, hostNetwork),
    terminationGracePeriodSeconds: limitSeconds(spec.terminationGracePeriodSeconds ?? 30),
    activeDeadlineSeconds: spec.activeDeadlineSeconds,
    activeForMs: context.activeForMs,
    ephemeralStorageLimit: podStorageLimit(pod),
    isCritical: isCritical(pod) ? true : undefined,
    shareProcessNamespace: spec.shareProcessNamespace,
    hostPID: spec.hostPID,
    hostIPC: spec.hostIPC,
    hostUsers: spec.hostUsers,
    fsGroup: spec.securityContext?.fsGroup,
    sysctls: spec.securityContext?.sysctls,
    seccompProfiles: context.seccompProfiles,
    resolvConf: resolvConf(pod, dns).text,
    etcHosts: etcHosts(pod, addresses.podIPs, dns.clusterDomain),
    initContainers: (spec.initContainers ?? []).map(container),
    containers: spec.containers.filter(goesOn).map(container),
    ephemeralContainers: (spec.ephemeralContainers ?? [])
      .filter(goesOn)
      .slice(0, maxContainers)
      .map(container),
    volumes: (spec.volumes ?? []).map((volume) => desiredVolume(resolved, volume)),
    registries: mergeRegistries(pulledImages(pod), {
      pullSecrets: resolved.pullSecrets,
      own: context.registries,
      logIns: context.logIns,
    }),
    images: context.images,
    logs: context.logs,
  });
}

function withGranted(
  container: DesiredContainer,
  { granted }: DesiredPodContext,
): DesiredContainer {
  const resources = granted?.get(container.name);
  return resources ? { ...container, granted: resourceAmounts(resources) } : container;
}

/** The pod-level fields that determine the resources of its containers. */
function resourcesOf(pod: Pod) {
  const { resources, overhead } = pod.spec;
  const { cpuMilliLimit = 0, memoryBytesLimit = 0 } = resourceAmounts({ limits: overhead ?? {} });
  return {
    podGeneration: pod.metadata.generation,
    resources: resources && resourceAmounts(resources),
    overhead: overhead && { cpuMilli: cpuMilliLimit, memoryBytes: memoryBytesLimit },
    qosClass: qosClasses.find((each) => each === qosClass(pod)),
    isNodeCritical: isNodeCritical(pod) ? true : undefined,
  };
}

function desiredIpv6(ipv6: InstanceIpv6 | undefined, hostNetwork: boolean): DesiredPod["ipv6"] {
  if (!ipv6) return undefined;
  const { podIp, managementIp: machineIp, gateway } = ipv6;
  return { ...(hostNetwork ? {} : { podIp }), machineIp, gateway };
}

/** The names of the images of a pod's containers. */
export function imagesOf({ spec }: Pod): readonly string[] {
  const { initContainers = [], containers, ephemeralContainers = [] } = spec;
  const all = [...initContainers, ...containers, ...ephemeralContainers];
  return all.flatMap(({ image }) => image ?? []);
}

/** All images that a pod's cell pulls: those of its containers and of its volumes. */
export function pulledImages(pod: Pod): readonly string[] {
  const ofVolumes = (pod.spec.volumes ?? []).flatMap(({ image }) => image?.reference ?? []);
  return [...imagesOf(pod), ...ofVolumes];
}

function podIdentity({ metadata }: Pod) {
  const { uid, namespace, name, labels = {}, annotations = {} } = metadata;
  return { uid, namespace, name, labels, annotations };
}

function desiredVolume(resolved: ResolvedPod, volume: Volume): DesiredVolume {
  const { name, emptyDir, hostPath, image } = volume;
  if (hostPath) {
    return defined({
      name,
      kind: "hostPath" as const,
      hostPath: hostPath.path,
      hostPathType: hostPath.type,
    });
  }
  if (image) return imageVolume(name, image);
  const files = resolved.files.get(name);
  if (files) {
    const encoded = files.map(({ path, data: bytes, mode, owner }) => {
      const data = Buffer.from(bytes).toString("base64");
      // A pod may have a hundred thousand files, for which `defined()` would take longer than everything else.
      return owner === undefined ? { path, data, mode } : { path, data, mode, owner };
    });
    return { name, kind: "files", files: encoded };
  }
  if (resolved.missingFiles?.has(name) === true) return { name, kind: "files", keepsFiles: true };
  const { medium, sizeLimit } = emptyDir ?? {};
  const sizeLimitBytes = sizeLimit === undefined ? undefined : diskBytes(sizeLimit);
  return defined({ name, kind: "emptyDir" as const, medium, sizeLimitBytes, sizeLimit });
}

function imageVolume(name: string, source: NonNullable<Volume["image"]>): DesiredVolume {
  const { reference: image = "", pullPolicy: imagePullPolicy } = source;
  return { name, kind: "image", image, imagePullPolicy: pullPolicy({ image, imagePullPolicy }) };
}
