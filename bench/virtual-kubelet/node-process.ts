import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { packVirtualKubelet } from "../../tools/pack-virtual-kubelet.ts";

/** Resources that a process has used so far. */
export interface Usage {
  /** Current and peak resident memory. */
  readonly rssMiB: number;
  readonly maxRssMiB: number;
  readonly cpuMs: number;
}

/** A node that the library runs in its own process. Disposing of it ends the process. */
export interface NodeProcess extends AsyncDisposable {
  usage(): Promise<Usage>;
}

/** Builds the library's package inside of the repository, where its dependencies are found. */
export function buildPackage(): string {
  const folder = path.join(import.meta.dirname, "../../dist/bench");
  packVirtualKubelet(folder);
  return path.join(folder, "package");
}

/** Starts a node and resolves when it is registered. */
export async function startNodeProcess(options: {
  readonly folder: string;
  readonly kubeconfigPath: string;
  readonly nodeName: string;
  /** Flags of Node. */
  readonly flags: readonly string[];
}): Promise<NodeProcess> {
  const program = path.join(import.meta.dirname, "node.mjs");
  const child = fork(program, [options.folder, options.kubeconfigPath, options.nodeName], {
    execArgv: [...options.flags],
  });
  await once(child, "message");
  return {
    usage: async () => {
      child.send("usage");
      const [answer] = (await once(child, "message")) as [Usage]; // our own child
      return answer;
    },
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, "exit");
      child.kill();
      await ended;
    },
  };
}
