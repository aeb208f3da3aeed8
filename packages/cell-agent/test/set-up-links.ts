// Sets up links, one after the other, in its own network namespace, and prints the limits after each. Run by pod-link-limits.int.test.ts.
import { argv, stdout } from "node:process";
import { runCommand, silentLogger } from "@kip/base";
import * as routing from "@kip/service-routing";
import { linkMaker, type PodLink } from "../src/network/pod-link.ts";

const cable = "kip-pod";
const setUp = linkMaker(routing, { cable, logger: silentLogger });
for (const link of JSON.parse(argv[2] ?? "[]") as readonly PodLink[]) {
  await setUp(link);
  const { stdout: shown } = await runCommand("/usr/sbin/tc", ["qdisc", "show"]);
  const rates = [...shown.matchAll(/dev (\S+) root .* rate (\S+)/g)];
  stdout.write(`${rates.map(([, device, rate]) => `${device} ${rate}`).join(", ")}\n`);
}
