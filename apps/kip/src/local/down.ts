import { rm } from "node:fs/promises";
import path from "node:path";
import { KipError, silentLogger } from "@kip/base";
import { createLocalCloud } from "@kip/cloud-local";
import { removeKubeconfigContext } from "@kip/control-plane";
import { helpText, parseOptions } from "../cli/options.ts";
import { readRecord } from "./cluster-record.ts";
import { localLayout } from "./layout.ts";
import { downOptions } from "./local-options.ts";
import { endProcesses } from "./processes.ts";

const usage =
  "Usage: kip down [options]\n\nRemoves the local cluster: processes, machines, network, state and the kubectl context.";

/** Removes the local cluster, whatever state it is in. Doing it twice is fine. */
export async function down(args: readonly string[]): Promise<void> {
  const options = parseOptions(downOptions, args, process.env);
  if (options.isSet("help")) return void process.stdout.write(helpText(usage, downOptions));
  if (process.getuid?.() !== 0) {
    throw new KipError(
      "NOT_ROOT",
      "Cannot remove the local cluster: its machines and network belong to root",
      {
        remedy: "Run the same command with sudo",
      },
    );
  }
  const layout = localLayout(
    path.resolve(options.required("state-dir")),
    path.resolve(options.required("cache-dir")),
  );
  const record = await readRecord(layout.daemonRecord);
  await endProcesses(layout.stateDir, 15_000);
  await using cloud = await createLocalCloud({
    owner: "kip-down",
    stateDir: layout.machinesDir,
    imagesDir: path.join(layout.cacheDir, "images"),
    namespace: record?.namespaceName ?? options.required("namespace-name"),
    ...(record && { range: record.networkRange }),
    logger: silentLogger,
  });
  await cloud.terminateAll();
  await cloud.removeNetwork();
  if (record) {
    await removeKubeconfigContext({
      path: record.userKubeconfig,
      kubectl: record.kubectl,
      statePath: path.join(layout.stateDir, "previous-context"),
    });
  }
  await rm(layout.stateDir, { recursive: true, force: true });
  if (options.isSet("purge")) await rm(layout.cacheDir, { recursive: true, force: true });
  console.log(
    options.isSet("purge")
      ? "Removed, with the cache"
      : `Removed; the cache ${layout.cacheDir} is kept (--purge removes it)`,
  );
}
