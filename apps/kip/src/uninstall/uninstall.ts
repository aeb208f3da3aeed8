import { silentLogger, systemClock, type Option, type OptionValues } from "@kip/base";
import { findLeftOvers, uninstallNode } from "@kip/kip";
import { parseCommand } from "../cli/parse-command.ts";
import { stopRequest } from "../cli/stop-request.ts";
import { isCosting, leftOversText } from "../cleanup/left-overs-text.ts";
import {
  installationOptions,
  openInstallation,
  type OpenedInstallation,
} from "../cleanup/open-installation.ts";

const usage = `Usage: kip uninstall --provider-config=FILE [options]

Removes a node of kip for good. It evicts the node's pods, whose machines end with them, and stops
kip. Then it deletes the Node, instances and Cells that are left, its Leases, and the Cell resource
unless another kip uses it, and lists what still costs money. It may be interrupted and run again.
Without --yes nothing is changed. The objects of the manifests stay: remove them afterwards with
kubectl delete -k or helm uninstall.

Exit code: 0 nothing is left that costs money, or nothing was to be removed; 1 something is left, or
it is not known.

Example: kip uninstall --provider-config=provider.yaml --nodename=kip --stop-kip --yes`;

const options: readonly Option[] = [
  ...installationOptions,
  {
    flag: "stop-kip",
    type: "boolean",
    help: "remove the node even if a kip runs it: kip ends the pods, then its Deployment is stopped",
  },
  {
    flag: "end-pods",
    type: "boolean",
    help: "remove the node even if pods are lost: those that nothing replaces, or all of them if no kip runs",
  },
  { flag: "namespace", type: "string", fallback: "kip-system", help: "namespace of kip" },
  { flag: "deployment", type: "string", fallback: "kip", help: "Deployment that runs kip" },
  { flag: "yes", type: "boolean", help: "remove the node; without it nothing is changed" },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Runs `kip uninstall`. */
export async function uninstall(args: readonly string[]): Promise<void> {
  const values = parseCommand(usage, options, args);
  if (!values) return;
  await using installation = await openInstallation(values);
  const isForReal = values.isSet("yes");
  if (isForReal) await remove(values, installation);
  const left = await findLeftOvers(installation);
  console.log(leftOversText(left));
  if (isForReal) process.exitCode = isCosting(left) ? 1 : 0;
  else console.log("Nothing was changed: --yes removes the node.");
}

async function remove(values: OptionValues, installation: OpenedInstallation): Promise<void> {
  const nodeName = values.required("nodename");
  const { isClean, stillUsedBy } = await uninstallNode({
    ...installation,
    nodeName,
    endsPods: values.isSet("end-pods"),
    stopsKip: values.isSet("stop-kip"),
    deployment: { namespace: values.required("namespace"), name: values.required("deployment") },
    clock: systemClock,
    logger: silentLogger,
    signal: stopRequest().signal,
    onProgress: (message) => console.log(message),
  });
  const rest =
    stillUsedBy === undefined ? "" : ` The Cell resource stays: ${stillUsedBy} still uses it.`;
  console.log(
    isClean
      ? `Removed node "${nodeName}".${rest}`
      : `Node "${nodeName}" still has instances: run kip uninstall again.`,
  );
}
