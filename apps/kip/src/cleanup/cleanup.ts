import { OptionError, silentLogger, systemClock, type Option, type OptionValues } from "@kip/base";
import { cleanUpInTurn, findLeftOvers } from "@kip/kip";
import { parseCommand } from "../cli/parse-command.ts";
import { stopRequest } from "../cli/stop-request.ts";
import { isCosting, leftOversText } from "./left-overs-text.ts";
import {
  installationOptions,
  openInstallation,
  type OpenedInstallation,
} from "./open-installation.ts";

const usage = `Usage: kip cleanup --provider-config=FILE [options]

Lists what this installation of kip has in its cloud: instances, volumes and dedicated hosts.

With --yes it removes the node for good: the Node object, its instances and Cells, instances without
a Cell, and dedicated hosts without instances. Then it lists what is left. Volumes stay, because they
may hold data. Stop kip before that; kip uninstall removes a node whose kip runs.

Exit code: 0 nothing is left that costs money, or nothing was to be removed; 1 something is left, or
it is not known.

Example: kip cleanup --provider-config=provider.yaml --nodename=kip --yes`;

const options: readonly Option[] = [
  ...installationOptions,
  { flag: "yes", type: "boolean", help: "remove the node; without it nothing is changed" },
  {
    flag: "end-pods",
    type: "boolean",
    help: "remove the node even if it has pods that have not ended",
  },
  {
    flag: "verify",
    type: "boolean",
    help: "change nothing, and fail if something is left that costs money",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Runs `kip cleanup`. */
export async function cleanup(args: readonly string[]): Promise<void> {
  const values = parseCommand(usage, options, args);
  if (!values) return;
  const [isForReal, verifies] = [values.isSet("yes"), values.isSet("verify")];
  if (isForReal && verifies)
    throw new OptionError("OPTION_INVALID", "Cannot use --yes and --verify together", {
      remedy: "--yes verifies when it is done",
    });
  await using installation = await openInstallation(values);
  if (isForReal) await removeNode(values, installation);
  const left = await findLeftOvers(installation);
  console.log(leftOversText(left));
  if (isForReal || verifies) process.exitCode = isCosting(left) ? 1 : 0;
  else if (isCosting(left)) console.log("Nothing was changed: --yes ends the instances.");
}

async function removeNode(values: OptionValues, installation: OpenedInstallation): Promise<void> {
  await cleanUpInTurn({
    ...installation,
    nodeName: values.required("nodename"),
    endsPods: values.isSet("end-pods"),
    clock: systemClock,
    logger: silentLogger,
    signal: stopRequest().signal,
    onProgress: (message) => console.log(message),
  });
}
