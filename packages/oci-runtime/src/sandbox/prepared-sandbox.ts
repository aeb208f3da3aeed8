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
 * A pod's namespaces and its cable, without an address. When the agent ends, only the parts survive that removePodSandbox()
 * finds by the sandbox's name.
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

  /** Creates it. There must be no sandbox with this name. @throws {CommandError} `COMMAND_FAILED` */
  static async make(name: string, files: SandboxFiles, users?: IdRange): Promise<PreparedSandbox> {
    mkdirSync(files.directory, { recursive: true, mode: 0o700 });
    const cable = cableName(name);
    const { ipc, uts, net } = files;
    if (users) await makeUserNamespace({ ...users, file: files.user }, { ipc, uts, net });
    // Root in the pod's user namespace could not move the other end of the cable here. So the machine's root configures the
    // pod's network.
    const enter = users
      ? ["/usr/bin/nsenter", `--net=${net}`, "--"]
      : inNewNamespaces({ ipc, uts, net });
    const start = withUsualSysctls(enter, { hasOwnUsers: users !== undefined });
    const inner = await WaitingIp.begin(start, innerPreparation(cable, process.pid));
    try {
      // Done in advance, so that the pod does not wait for it.
      await makeSharedMemory(name, users?.firstId ?? 0);
      closeToIpv6(cable); // before the cable is up
      return new PreparedSandbox(name, inner, await WaitingIp.begin([], outerPreparation(cable)));
    } catch (error) {
      await inner.finish([]).catch(() => {});
      throw error;
    }
  }

  /** Configures the network for the pod. Call it once. @throws {CommandError} `COMMAND_FAILED` */
  async finish(network: PodNetwork): Promise<void> {
    allowForwarding(network);
    const { hostInterface, ipv6 } = network;
    await Promise.all([
      ipv6 && !ipv6.gateway ? keepFirstRouter(hostInterface) : undefined,
      this.#inner.finish(innerCommands(network)),
      this.#outer.finish(outerCommands(network)),
    ]);
  }

  /** Ends the waiting programs. removePodSandbox() removes everything else. */
  async abandon(): Promise<void> {
    await Promise.allSettled([this.#inner.finish([]), this.#outer.finish([])]);
  }
}
