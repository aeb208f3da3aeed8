// An agent with real rules and without containers, in its own process. Arguments: command prefix that runs nft in the
// namespace.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { runCommand, silentLogger } from "@kip/base";
import { startAgent } from "@kip/cell-agent";
import { NetworkRules } from "@kip/service-routing";
import { fakeDependencies } from "../../packages/cell-agent/test/fake-dependencies.ts";
import { cellName, makeCredentials } from "../../packages/cell-agent/test/test-cell.ts";
import { answerUsage } from "./usage.ts";

const [program = "", ...prefix] = process.argv.slice(2);
const folder = mkdtempSync(path.join(tmpdir(), "kip-bench-agent-"));
const { authority, identity, kip } = await makeCredentials();
const agent = await startAgent({
  identity,
  agentVersion: "bench",
  stateDir: `${folder}/state`,
  runDir: `${folder}/run`,
  port: 0,
  host: "127.0.0.1",
  logger: silentLogger,
  loadDependencies: async () => await Promise.resolve(dependencies()),
});
answerUsage();
process.send?.({ port: agent.port, cellName, ca: authority.certificate, ...kip });

function dependencies() {
  return {
    ...fakeDependencies(),
    createNetworkRules: (place: object) =>
      new NetworkRules({
        place: {
          podAddresses: ["10.1.0.2"],
          cable: "kip-pod",
          nodeAddresses: [],
          serviceRanges: [],
          ...place,
        },
        runNft: async (input) =>
          (await runCommand(program, [...prefix, "nft", "-f", "-"], { input })).stdout,
        forget: async () => {},
        logger: silentLogger,
      }),
  };
}
