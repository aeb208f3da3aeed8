import { mkdirSync } from "node:fs";
import type { IdRange } from "../contract/pod-sandbox.ts";
import { inNewNamespaces } from "./namespaces.ts";
import { makeUserNamespace } from "./user-namespace.ts";
import { closeToIpv6 } from "./pod-ipv6.ts";
import {
  allowForwarding,
  cableName,
  innerCommands,
  innerPreparation,
  outerCommands,
  outerPreparation,
  type PodNetwork,
} from "./pod-network.ts";
import { keepFirstRouter } from "./router-guard.ts";
import type { SandboxFiles } from "./sandbox-files.ts";
import { makeSharedMemory } from "./shared-memory.ts";
import { withUsualSysctls } from "./sysctls.ts";
import { WaitingIp } from "./waiting-ip.ts";

/**
 * A pod's namespaces and its cable, still without an address. Nothing of it survives the agent but
 * what removePodSandbox() finds by the sandbox's name.
 */
export class PreparedSandbox {
  readonly name: string;
  readonly #inner: WaitingIp;
  readonly #outer: WaitingIp;

  private constructor(name: string, inner: WaitingIp, outer: WaitingIp) {
    this.name = name;
    this.#inner = inner;
    this.#outer = outer;
  }

  /** Makes it, where there is nothing of a sandbox of this name. @throws {CommandError} `COMMAND_FAILED` */
  static async make(name: string, files: SandboxFiles, users?: IdRange): Promise<PreparedSandbox> {
    mkdirSync(files.directory, { recursive: true, mode: 0o700 });
    const cable = cableName(name);
    const { ipc, uts, net } = files;
    if (users) await makeUserNamespace({ ...users, file: files.user }, { ipc, uts, net });
    // Root of the pod's own users could not put the other end of the cable here: its network is set up by this machine's.
    const enter = users
      ? ["/usr/bin/nsenter", `--net=${net}`, "--"]
      : inNewNamespaces({ ipc, uts, net });
    const start = withUsualSysctls(enter, { hasOwnUsers: users !== undefined });
    const inner = await WaitingIp.begin(start, innerPreparation(cable, process.pid));
    try {
      // Here, since it is then no part of the time that a pod waits for.
      await makeSharedMemory(name, users?.firstId ?? 0);
      closeToIpv6(cable); // before it is up
      return new PreparedSandbox(name, inner, await WaitingIp.begin([], outerPreparation(cable)));
    } catch (error) {
      await inner.finish([]).catch(() => {});
      throw error;
    }
  }

  /** Makes the network the pod's. To be called once. @throws {CommandError} `COMMAND_FAILED` */
  async finish(network: PodNetwork): Promise<void> {
    allowForwarding(network);
    const { hostInterface, ipv6 } = network;
    await Promise.all([
      ipv6 && !ipv6.gateway ? keepFirstRouter(hostInterface) : undefined,
      this.#inner.finish(innerCommands(network)),
      this.#outer.finish(outerCommands(network)),
    ]);
  }

  /** Ends what waits; the rest is for removePodSandbox(). */
  async abandon(): Promise<void> {
    await Promise.allSettled([this.#inner.finish([]), this.#outer.finish([])]);
  }
}
