// Sets up links, one after the other, in its own network namespace with prepared tables. Prints the state after each. Run by
// pod-link-kernel.int.test.ts.
import { argv, stdout } from "node:process";
import { runCommand, silentLogger } from "@kip/base";
import * as routing from "@kip/service-routing";
import { linkMaker, type PodLink } from "../src/network/pod-link.ts";

const cable = "kip-pod";
/** The state of the kernel after a link was set up. */
export interface LinkInKernel {
  readonly limits: string;
  /** Whether the prepared tables keep packets from the pod. */
  readonly isClosed: boolean;
}

const runNft = async (input: string): Promise<string> =>
  (await runCommand("/usr/sbin/nft", ["-f", "-"], { input })).stdout;
await routing.prepareTables({ cable, runNft });
const setUp = linkMaker(routing, { cable, logger: silentLogger });
for (const link of JSON.parse(argv[2] ?? "[]") as readonly PodLink[]) {
  await setUp(link);
  const { stdout: shown } = await runCommand("/usr/sbin/tc", ["qdisc", "show"]);
  const rates = [...shown.matchAll(/dev (\S+) root .* rate (\S+)/g)];
  const limits = rates.map(([, device, rate]) => `${device} ${rate}`).join(", ");
  const isClosed = (await runNft("list tables\n")).includes("kip_policy");
  stdout.write(`${JSON.stringify({ limits, isClosed } satisfies LinkInKernel)}\n`);
}
