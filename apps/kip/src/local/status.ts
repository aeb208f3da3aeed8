import { spawnSync } from "node:child_process";
import { OptionError } from "@kip/base";
import { helpText, parseOptions, type Option } from "@kip/base";
import { runningCluster } from "./cluster/cluster-record.ts";
import { localLayout } from "./cluster/layout.ts";
import { commonOptions } from "./cluster/local-options.ts";
import { clusterProcesses } from "./cluster/processes.ts";
import { requireRoot } from "./cluster/requirements.ts";
import { KipError } from "../errors.ts";

const usage = "Usage: kip status [options]\n\nShows what runs of the local cluster.";
const statusOptions: readonly Option[] = [
  ...commonOptions,
  { flag: "show", type: "string", help: "print one fact only: kubectl, kubeconfig, server" },
];

/** Prints what runs. */
export async function status(args: readonly string[]): Promise<void> {
  const options = parseOptions(statusOptions, args, process.env);
  if (options.isSet("help")) return void process.stdout.write(helpText(usage, statusOptions));
  requireRoot("show");
  const layout = localLayout(options);
  const record = await runningCluster(layout);
  if (!record) {
    throw new KipError("LOCAL_CLUSTER_ABSENT", "Cannot show the local cluster: it is not running", {
      remedy: "Start it with kip up",
    });
  }
  const facts: Readonly<Record<string, string>> = {
    kubectl: record.kubectl,
    kubeconfig: record.adminKubeconfig,
    server: record.server,
  };
  const shown = options.text("show");
  if (shown !== undefined) {
    if (!Object.hasOwn(facts, shown))
      throw new OptionError(
        "OPTION_INVALID",
        `Cannot use --show ${shown}: one of ${Object.keys(facts).join(", ")} is expected`,
      );
    console.log(facts[shown]);
    return;
  }
  console.log(`API server  ${record.server} (context kip-local)`);
  const { length } = await clusterProcesses(layout.stateDir);
  console.log(`Processes   ${length}, logs in ${layout.logDir}`);
  for (const resource of ["nodes", "cells", "pods"]) {
    const words = [
      "--kubeconfig",
      record.adminKubeconfig,
      "get",
      resource,
      ...(resource === "pods" ? ["-A"] : []),
    ];
    console.log(`\n${resource}:`);
    spawnSync(record.kubectl, words, { stdio: "inherit" });
  }
}
