import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { errorText, silentLogger } from "@kip/base";
import { createLocalCloud } from "@kip/cloud-local";
import { removeKubeconfigContext } from "@kip/control-plane";
import { lockCluster } from "../cluster/cluster-lock.ts";
import { readRecord, type ClusterRecord } from "../cluster/cluster-record.ts";
import { localLayout, type LocalLayout } from "../cluster/layout.ts";
import { downOptions } from "../cluster/local-options.ts";
import { removeCache, requireOwnState } from "../cluster/own-folders.ts";
import { endCluster } from "../cluster/processes.ts";
import { splitRanges } from "../cluster/network-ranges.ts";
import { requireRoot } from "../cluster/requirements.ts";
import { parseCommand } from "../../cli/parse-command.ts";

const usage = `Usage: kip down [options]

Removes the local cluster: processes, machines, network, state and the kubectl context.

Example: kip down`;

/** Removes the local cluster in whatever state it is. Safe to repeat. */
export async function down(args: readonly string[]): Promise<void> {
  const options = parseCommand(usage, downOptions, args);
  if (!options) return;
  requireRoot("remove");
  const layout = localLayout(options);
  await using _cluster = await lockCluster(layout.stateDir, {
    onWait: () => console.log("Waiting for another kip up or kip down"),
  });
  await requireOwnState(layout, "remove");
  const record = await readRecord(layout.daemonRecord);
  await endCluster(layout.stateDir, 15_000);
  await using cloud = await createLocalCloud({
    owner: "kip-down",
    stateDir: layout.machinesDir,
    imagesDir: path.join(layout.cacheDir, "images"),
    templatesDir: layout.templatesDir,
    namespace: record?.namespaceName ?? options.required("namespace-name"),
    ...(record && splitRanges(record.networkRange)),
    logger: silentLogger,
  });
  await cloud.terminateAll();
  await cloud.removeNetwork();
  // Without this file, the context was never added.
  if (record && existsSync(layout.contextState)) await removeContext(record, layout);
  await rm(layout.stateDir, { recursive: true, force: true });
  if (options.isSet("purge")) await removeCache(layout.cacheDir);
  console.log(
    options.isSet("purge")
      ? "Removed, with the cache"
      : `Removed; the cache ${layout.cacheDir} is kept (--purge removes it)`,
  );
}

/** Removes the context. If that fails, because kubectl or the file is broken, the rest still continues. */
async function removeContext(record: ClusterRecord, layout: LocalLayout): Promise<void> {
  try {
    await removeKubeconfigContext({
      path: record.userKubeconfig,
      kubectl: record.kubectl,
      statePath: layout.contextState,
    });
  } catch (error) {
    console.error(`kip: The context in ${record.userKubeconfig} is left: ${errorText(error)}`);
  }
}
