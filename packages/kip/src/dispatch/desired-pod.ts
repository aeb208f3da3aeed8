import { bytes, defined } from "@kip/base";
import type {
  DesiredImageSettings,
  DesiredPod,
  DesiredRegistry,
  DesiredVolume,
} from "@kip/agent-api";
import type { InstanceIpv6, RegistryLogIn } from "@kip/cloud";
import type { Pod, Volume } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { LateAddresses } from "@kip/virtual-kubelet/environment";
import { desiredContainer } from "./desired-container.ts";
import { desiredHostPorts } from "./host-ports.ts";
import { podFields } from "../pod-fields/pod-fields.ts";
import { etcHosts, kernelHostname } from "./pod-network-files.ts";
import { mergeRegistries } from "./registries.ts";
import { resolvConf, type DnsSettings } from "./resolv-conf.ts";

/** Options of {@link desiredPod}. */
export interface DesiredPodContext {
  /** Address of the virtual node. */
  readonly nodeIp: string;
  readonly addresses: LateAddresses;
  /** What the cell has of IPv6. */
  readonly ipv6?: InstanceIpv6 | undefined;
  readonly dns: DnsSettings;
  /** See `DesiredPod.network`. */
  readonly network?: DesiredPod["network"];
  readonly registries: readonly DesiredRegistry[];
  /** The cloud's log-ins for its own registries, by host. */
  readonly logIns?: ReadonlyMap<string, RegistryLogIn> | undefined;
  readonly images?: DesiredImageSettings | undefined;
  /** See `DesiredPod.generation`. */
  readonly generation: number;
  /** See `DesiredPod.activeForMs`. */
  readonly activeForMs?: number | undefined;
  /** Names of containers that have ended on earlier cells and do not run again. @default none */
  readonly ended?: ReadonlySet<string>;
}

/** Turns a resolved pod into the document for its cell's agent. */
export function desiredPod(resolved: ResolvedPod, context: DesiredPodContext): DesiredPod {
  const { pod } = resolved;
  const { spec } = pod;
  const { addresses, dns } = context;
  const container = (each: Parameters<typeof desiredContainer>[1]) =>
    desiredContainer(resolved, each, addresses);
  const goesOn = ({ name }: { readonly name: string }) => context.ended?.has(name) !== true;
  const hostNetwork = spec.hostNetwork === true;
  const podIp = addresses.podIPs[0] ?? "";
  return defined({
    ...podIdentity(pod),
    generation: context.generation,
    restartPolicy: restartPolicy(pod),
    hostname: kernelHostname(pod, dns.clusterDomain),
    hostNetwork,
    network: context.network,
    podIp: hostNetwork ? undefined : podIp,
    hostPorts: desiredHostPorts(pod, { cell: addresses.hostIPs[0] ?? "", node: context.nodeIp }),
    ipv6: desiredIpv6(context.ipv6, hostNetwork),
    terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds ?? 30,
    activeDeadlineSeconds: spec.activeDeadlineSeconds,
    activeForMs: context.activeForMs,
    shareProcessNamespace: spec.shareProcessNamespace,
    hostPID: spec.hostPID,
    hostIPC: spec.hostIPC,
    fsGroup: spec.securityContext?.fsGroup,
    sysctls: spec.securityContext?.sysctls,
    resolvConf: resolvConf(pod, dns).text,
    etcHosts: etcHosts(pod, addresses.podIPs, dns.clusterDomain),
    initContainers: (spec.initContainers ?? []).map(container),
    containers: spec.containers.filter(goesOn).map(container),
    ephemeralContainers: (spec.ephemeralContainers ?? []).filter(goesOn).map(container),
    volumes: (spec.volumes ?? []).map((volume) => desiredVolume(resolved, volume)),
    registries: mergeRegistries(imagesOf(pod), {
      pullSecrets: resolved.pullSecrets,
      own: context.registries,
      logIns: context.logIns,
    }),
    images: context.images,
  });
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

function podIdentity({ metadata }: Pod) {
  const { uid, namespace, name, labels = {}, annotations = {} } = metadata;
  return { uid, namespace, name, labels, annotations };
}

/** The pod's restart policy; the API's default is Always. */
export function restartPolicy(pod: Pod): DesiredPod["restartPolicy"] {
  const policy = pod.spec.restartPolicy;
  return policy === "Never" || policy === "OnFailure" ? policy : "Always";
}

function desiredVolume(resolved: ResolvedPod, volume: Volume): DesiredVolume {
  const { name, emptyDir, hostPath } = volume;
  if (hostPath) {
    return defined({
      name,
      kind: "hostPath" as const,
      hostPath: hostPath.path,
      hostPathType: hostPath.type,
    });
  }
  const files = resolved.files.get(name);
  if (files) {
    const encoded = files.map(({ path, data, mode }) => ({
      path,
      data: Buffer.from(data).toString("base64"),
      mode,
    }));
    return { name, kind: "files", files: encoded };
  }
  const sizeLimitBytes = emptyDir?.sizeLimit === undefined ? undefined : bytes(emptyDir.sizeLimit);
  return defined({ name, kind: "emptyDir" as const, medium: emptyDir?.medium, sizeLimitBytes });
}

/** The volumes whose kind is not supported, with the kind: `data (nfs)`. */
export function unsupportedVolumes(pod: Pod): readonly string[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => {
    const sources = Object.keys(volume).filter((key) => key !== "name");
    const unsupported = sources.filter((key) => podFields["Volume"]?.[key]?.kind !== "works");
    return unsupported.map((kind) => `${volume.name} (${kind})`);
  });
}
