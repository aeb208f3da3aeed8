import type { OptionValues } from "@kip/base";
import { lockCluster } from "../cluster/cluster-lock.ts";
import { readRecord, runningCluster } from "../cluster/cluster-record.ts";
import { isEc2 } from "../cluster/cloud-choice.ts";
import { hostPorts } from "../cluster/host-ports.ts";
import { localLayout, type LocalLayout } from "../cluster/layout.ts";
import { upOptions } from "../cluster/local-options.ts";
import { lockCache, requireOwnState } from "../cluster/own-folders.ts";
import { endCluster } from "../cluster/processes.ts";
import { nodePortAddresses } from "../cluster/node-port-addresses.ts";
import { resolvers } from "../cluster/resolvers.ts";
import { networkRanges } from "../cluster/network-ranges.ts";
import { switches } from "../cluster/switches.ts";
import { checkHost } from "../cluster/requirements.ts";
import { obtainParts } from "../prepare/obtain-parts.ts";
import { startDaemon } from "./start-daemon.ts";
import { architectures } from "../../cli/architectures.ts";
import { KipError } from "../../errors.ts";
import { parseCommand } from "../../cli/parse-command.ts";

const usage = `Usage: kip up [options]

Starts a local cluster: a real Kubernetes control plane, and cells as virtual machines.

Example: kip up --settings=settings.yaml`;

/** Starts the local cluster, unless it is already running. */
export async function up(args: readonly string[]): Promise<void> {
  const options = parseCommand(usage, upOptions, args);
  if (!options) return;
  const layout = localLayout(options);
  checkHost();
  await requireOwnState(layout, "use");
  isEc2(options); // check all options before anything is built
  architectures(options);
  hostPorts(options);
  networkRanges(options);
  resolvers(options);
  nodePortAddresses(options);
  switches(options, "feature-gates");
  switches(options, "runtime-config");
  const settings = options.text("settings");
  if (settings !== undefined) {
    const { readUserSettings } = await import("../prepare/user-settings.ts");
    await readUserSettings(settings);
  }
  await using _cluster = await lockCluster(layout.stateDir, {
    onWait: () => console.log("Waiting for another kip up or kip down"),
  });
  await using _cache = await lockCache(layout.cacheDir);
  if (options.isSet("prepare")) return void (await obtainParts(options, layout));
  const record = await runningCluster(layout);
  if (record) {
    console.log(`The local cluster is running: ${record.server}, context kip-local`);
    if (options.isSet("refresh-image")) {
      await obtainParts(options, layout);
      console.log("Its cells have the new operating system after kip down and kip up");
    }
    return;
  }
  await requireSameNetwork(options, layout);
  // Left by an interrupted run. Machines are kept, because the new run takes them over.
  await endLeftovers(layout);
  const parts = await obtainParts(options, layout);
  await startDaemon(options, layout, parts);
  console.log("The local cluster is ready; its kubectl context is kip-local");
}

/** If a cluster ended without `kip down`, this continues it, which only works with the same network. */
async function requireSameNetwork(options: OptionValues, layout: LocalLayout): Promise<void> {
  const before = await readRecord(layout.daemonRecord);
  if (!before) return;
  const { namespaceName, networkRange, services = options.required("service-range") } = before;
  const { cloud = "local" } = before;
  if (cloud !== options.required("cloud"))
    throw new KipError(
      "LOCAL_CLUSTER_FAILED",
      `Cannot start the local cluster: the one before it has the cloud ${cloud}`,
      { remedy: `Run kip down first, or give --cloud=${cloud}` },
    );
  if (
    namespaceName === options.required("namespace-name") &&
    networkRange === options.required("network-range") &&
    services === options.required("service-range")
  )
    return;
  throw new KipError(
    "LOCAL_CLUSTER_FAILED",
    `Cannot start the local cluster: the one before it has another network, ${networkRange} in namespace ${namespaceName}, with Services in ${services}`,
    {
      remedy: `Run kip down first, or give --namespace-name=${namespaceName} --network-range=${networkRange} --service-range=${services}`,
    },
  );
}

async function endLeftovers(layout: LocalLayout): Promise<void> {
  const ended = await endCluster(layout.stateDir, 10_000);
  if (ended > 0) console.log(`Ended ${ended} processes of an interrupted run`);
}
