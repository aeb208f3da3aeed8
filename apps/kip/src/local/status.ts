import { spawnSync } from "node:child_process";
import { OptionError, type Option } from "@kip/base";
import { parseCommand } from "../cli/parse-command.ts";
import { requireRunning, type ClusterRecord } from "./cluster/cluster-record.ts";
import { localLayout, type LocalLayout } from "./cluster/layout.ts";
import { commonOptions } from "./cluster/local-options.ts";
import { clusterProcesses } from "./cluster/processes.ts";
import { requireRoot } from "./cluster/requirements.ts";

const usage =
  "Usage: kip status [options]\n\nShows the API server, processes, nodes, cells and pods of the local cluster.\n\nExample: kip status --show=kubeconfig";
const statusOptions: readonly Option[] = [
  ...commonOptions,
  {
    flag: "show",
    type: "string",
    help: "print only the path of kubectl or of the kubeconfig, or the address of the server",
  },
];

/** Prints the state of the local cluster. */
export async function status(args: readonly string[]): Promise<void> {
  const options = parseCommand(usage, statusOptions, args);
  if (!options) return;
  requireRoot("show");
  const layout = localLayout(options);
  const record = await requireRunning(layout, "show the local cluster");
  const fact = options.text("show");
  if (fact === undefined) await printCluster(record, layout);
  else console.log(factOf(record, fact));
}

/** @throws {OptionError} `OPTION_INVALID` */
function factOf(record: ClusterRecord, name: string): string {
  const facts = new Map([
    ["kubectl", record.kubectl],
    ["kubeconfig", record.adminKubeconfig],
    ["server", record.server],
  ]);
  const fact = facts.get(name);
  if (fact !== undefined) return fact;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --show ${name}: one of ${[...facts.keys()].join(", ")} is expected`,
  );
}

async function printCluster(record: ClusterRecord, layout: LocalLayout): Promise<void> {
  const { length } = await clusterProcesses(layout.stateDir);
  console.log(`API server  ${record.server} (context kip-local)`);
  console.log(`Processes   ${length}, logs in ${layout.logDir}`);
  for (const [resource, ...flags] of [["nodes"], ["cells"], ["pods", "-A"]] as const) {
    console.log(`\n${resource}:`);
    const args = ["--kubeconfig", record.adminKubeconfig, "get", resource, ...flags];
    spawnSync(record.kubectl, args, { stdio: "inherit" });
  }
}
