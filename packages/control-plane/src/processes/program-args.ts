import type { ControlPlaneCertificates } from "../certificates/control-plane-certificates.ts";

/** Inputs for the programs' flags. */
export interface ProgramArgsInput {
  readonly certificates: ControlPlaneCertificates["files"];
  readonly bindAddress: string;
  readonly advertiseAddress: string;
  readonly port: number;
  readonly serviceCidr: string;
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly runtimeConfig: Readonly<Record<string, boolean>>;
  /** Files for auditing kip's requests. @default none */
  readonly audit?: { readonly policy: string; readonly log: string } | undefined;
  /** Kubeconfig files of the two clients. */
  readonly controllerManagerKubeconfig: string;
  readonly schedulerKubeconfig: string;
}

/** Socket of etcd, relative to the working directory of etcd and the API server. */
const etcdSocket = "unix://etcd.sock";

/** Requests per second: the sustained rate and the burst. The default limits of 20 to 50 would delay bursts of pods. */
const clientRate = ["--kube-api-qps=300", "--kube-api-burst=600"] as const;

/**
 * etcd listens on a Unix socket in a directory that only this user can enter, so it needs no port and no certificates. It does
 * not use fsync, because this is a cluster on one machine, for trying kip. Nothing is lost when the programs end or are killed,
 * only when the machine loses power.
 */
export function etcdArgs(): readonly string[] {
  // etcd wants to advertise itself in host:port form. It is the only member, so no other one connects to this.
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

/** kube-apiserver: client certificates only, no anonymous requests, Node and RBAC authorisation. */
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

/** kube-controller-manager: all controllers, no port of its own, no leader election, because it is the only one. */
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

/** kube-scheduler: no port of its own, no leader election. */
export function schedulerArgs(input: ProgramArgsInput): readonly string[] {
  return [
    ...alone(input.schedulerKubeconfig),
    ...clientRate,
    ...switches("feature-gates", input.featureGates),
  ];
}

/** Logs to one file that is never rotated, because all of it is needed. */
function auditArgs(audit: ProgramArgsInput["audit"]): readonly string[] {
  if (!audit) return [];
  return [`--audit-policy-file=${audit.policy}`, `--audit-log-path=${audit.log}`];
}

/** A flag with a value of the form `name=true,name=false`. No flag if there are no names. */
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
