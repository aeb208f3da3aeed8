import type { ControlPlaneCertificates } from "../certificates/control-plane-certificates.ts";

/** What the programs' flags depend on. */
export interface ProgramArgsInput {
  readonly certificates: ControlPlaneCertificates["files"];
  readonly bindAddress: string;
  readonly advertiseAddress: string;
  readonly port: number;
  readonly serviceCidr: string;
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly runtimeConfig: Readonly<Record<string, boolean>>;
  /** Files of the audit of kip's requests. @default none */
  readonly audit?: { readonly policy: string; readonly log: string } | undefined;
  /** Kubeconfig files of the two clients. */
  readonly controllerManagerKubeconfig: string;
  readonly schedulerKubeconfig: string;
}

/** Socket of etcd, relative to the working directory that etcd and the API server share. */
const etcdSocket = "unix://etcd.sock";

/** Requests per second, sustained and at once; the defaults (20 to 50) hold up bursts of pods. */
const clientRate = ["--kube-api-qps=300", "--kube-api-burst=600"] as const;

/**
 * etcd: on a Unix socket in a directory that only we may enter, so no port and no certificates.
 * Without fsync, because this is one machine's try-out cluster: nothing is lost when the programs
 * end or are killed, only when the machine itself loses power.
 */
export function etcdArgs(): readonly string[] {
  // etcd wants to advertise itself in host:port form; it is alone, so no other member calls these.
  const self = "http://localhost:2380";
  return [
    "--name=kip-local",
    "--data-dir=data",
    `--listen-client-urls=${etcdSocket}`,
    "--advertise-client-urls=http://localhost:2379",
    "--listen-peer-urls=unix://etcd-peer.sock",
    `--initial-advertise-peer-urls=${self}`,
    `--initial-cluster=kip-local=${self}`,
    "--unsafe-no-fsync",
    "--log-level=warn",
  ];
}

/** kube-apiserver: certificates only (no anonymous requests), Node and RBAC authorisation. */
export function apiServerArgs(input: ProgramArgsInput): readonly string[] {
  const { certificates: files } = input;
  return [
    `--etcd-servers=${etcdSocket}`,
    `--bind-address=${input.bindAddress}`,
    `--advertise-address=${input.advertiseAddress}`,
    `--secure-port=${input.port}`,
    `--service-cluster-ip-range=${input.serviceCidr}`,
    `--tls-cert-file=${files.apiServer.certificate}`,
    `--tls-private-key-file=${files.apiServer.key}`,
    `--client-ca-file=${files.clusterCa.certificate}`,
    "--anonymous-auth=false",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged=true",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${files.tokenKey.publicPath}`,
    `--service-account-signing-key-file=${files.tokenKey.keyPath}`,
    `--kubelet-certificate-authority=${files.clusterCa.certificate}`,
    `--kubelet-client-certificate=${files.kubeletClient.certificate}`,
    `--kubelet-client-key=${files.kubeletClient.key}`,
    "--kubelet-preferred-address-types=InternalIP,Hostname",
    `--requestheader-client-ca-file=${files.frontProxyCa.certificate}`,
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    `--proxy-client-cert-file=${files.frontProxyClient.certificate}`,
    `--proxy-client-key-file=${files.frontProxyClient.key}`,
    "--profiling=false",
    "--v=1",
    ...auditArgs(input.audit),
    ...switches("feature-gates", input.featureGates),
    ...switches("runtime-config", input.runtimeConfig),
  ];
}

/** kube-controller-manager: all controllers, no port of its own, no election (it is alone). */
export function controllerManagerArgs(input: ProgramArgsInput): readonly string[] {
  const { certificates: files } = input;
  return [
    ...alone(input.controllerManagerKubeconfig),
    ...clientRate,
    "--use-service-account-credentials=true",
    `--service-account-private-key-file=${files.tokenKey.keyPath}`,
    `--root-ca-file=${files.clusterCa.certificate}`,
    `--cluster-signing-cert-file=${files.clusterCa.certificate}`,
    `--cluster-signing-key-file=${files.clusterCa.key}`,
    `--service-cluster-ip-range=${input.serviceCidr}`,
    "--allocate-node-cidrs=false",
    ...switches("feature-gates", input.featureGates),
  ];
}

/** kube-scheduler: no port of its own, no election. */
export function schedulerArgs(input: ProgramArgsInput): readonly string[] {
  return [
    ...alone(input.schedulerKubeconfig),
    ...clientRate,
    ...switches("feature-gates", input.featureGates),
  ];
}

/** One file, which is never replaced by another: all of it is wanted. */
function auditArgs(audit: ProgramArgsInput["audit"]): readonly string[] {
  if (!audit) return [];
  return [`--audit-policy-file=${audit.policy}`, `--audit-log-path=${audit.log}`];
}

/** A flag that takes `name=true,name=false`; none for no names. */
function switches(flag: string, values: Readonly<Record<string, boolean>>): readonly string[] {
  const all = Object.entries(values).map(([name, isOn]) => `${name}=${isOn}`);
  return all.length === 0 ? [] : [`--${flag}=${all.join(",")}`];
}

function alone(kubeconfig: string): readonly string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    "--leader-elect=false",
    "--secure-port=0",
    "--profiling=false",
    "--v=1",
  ];
}
