import { silentLogger, systemClock } from "@kip/base";
import { join, resolve } from "node:path";
import type { ControlPlaneOptions } from "./control-plane.ts";

type Resolved<T> = { readonly [K in keyof T]-?: NonNullable<T[K]> };

/** {@link ControlPlaneOptions} with all defaults, and the paths derived from them. */
export interface ResolvedOptions extends Resolved<
  Omit<ControlPlaneOptions, "signal" | "auditLog" | "actsAsNode">
> {
  readonly signal: AbortSignal | undefined;
  readonly auditLog: string | undefined;
  readonly actsAsNode: string | undefined;
  /** Directory for etcd's data and sockets. It is the working directory of etcd and the API server. */
  readonly etcdDir: string;
  readonly pkiDir: string;
  /** Directory with the identities of running processes, for a later start. */
  readonly runDir: string;
}

/** Adds the defaults. */
export function resolveOptions(options: ControlPlaneOptions): ResolvedOptions {
  const dataDir = resolve(options.dataDir);
  return {
    binaries: options.binaries,
    dataDir,
    logDir: resolve(options.logDir),
    port: options.port ?? 6443,
    bindAddress: options.bindAddress ?? "127.0.0.1",
    advertiseAddress: options.advertiseAddress ?? "198.18.0.1",
    serverNames: options.serverNames ?? [],
    serviceCidr: options.serviceCidr ?? "10.96.0.0/16",
    featureGates: options.featureGates ?? {},
    runtimeConfig: options.runtimeConfig ?? {},
    readyTimeoutMs: options.readyTimeoutMs ?? 60_000,
    environment: options.environment ?? {},
    onExit: options.onExit ?? (() => {}),
    clock: options.clock ?? systemClock,
    logger: (options.logger ?? silentLogger).with({ component: "control-plane" }),
    signal: options.signal,
    auditLog: options.auditLog === undefined ? undefined : resolve(options.auditLog),
    actsAsNode: options.actsAsNode,
    etcdDir: join(dataDir, "etcd"),
    pkiDir: join(dataDir, "pki"),
    runDir: join(dataDir, "run"),
  };
}

/** First address of a range, or of the first range of a pair. Kubernetes gives it to the `kubernetes` Service: `10.96.0.1`. */
export function firstServiceAddress(cidr: string): string {
  const match = /^(\d+\.\d+\.\d+)\.(\d+)\/\d+$/.exec(cidr.split(",", 1)[0] ?? "");
  if (!match)
    throw new RangeError(`serviceCidr must be an IPv4 range such as 10.96.0.0/16: ${cidr}`);
  return `${match[1]}.${Number(match[2]) + 1}`;
}
