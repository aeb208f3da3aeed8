import { OptionError, silentLogger, systemClock, type Option, type OptionValues } from "@kip/base";
import {
  cleanUpInTurn,
  CurrentTerm,
  findLeftOvers,
  readClusterID,
  type Installation,
} from "@kip/kip";
import { openClient } from "@kip/virtual-kubelet/command";
import { parseCommand } from "../cli/parse-command.ts";
import { stopRequest } from "../cli/stop-request.ts";
import { configError, readConfigFile, readConfigText } from "../config/read-provider-config.ts";
import { openDriver } from "../provider/driver.ts";
import { isCosting, leftOversText } from "./left-overs-text.ts";

const usage = `Usage: kip cleanup --provider-config=FILE [options]

Lists what this installation of kip has in its cloud: instances and volumes. With --yes it removes the node for good: the Node
object, its instances, those that no Cell stands for, and its Cells; then it lists what is left. Volumes stay: they may hold data.
Stop kip first.

Exit code: 0 nothing is left that costs money, or nothing was to be ended; 1 something is left, or it is not known.

Example: kip cleanup --provider-config=provider.yaml --nodename=kip --yes`;

const options: readonly Option[] = [
  { flag: "provider-config", type: "string", help: "path of the provider.yaml that kip runs with" },
  {
    flag: "kubeconfig",
    type: "string",
    help: "kubeconfig; default the first file that exists of those in KUBECONFIG (a:b), or without it ~/.kube/config",
  },
  {
    flag: "nodename",
    type: "string",
    env: ["DEFAULT_NODE_NAME", "DEFAULTNODE_NAME"],
    fallback: "virtual-kubelet",
    help: "name of the node",
  },
  { flag: "yes", type: "boolean", help: "remove the node; without it nothing is changed" },
  { flag: "end-pods", type: "boolean", help: "also if the node has pods that have not ended" },
  { flag: "verify", type: "boolean", help: "change nothing, and fail if something costs money" },
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
  const file = values.required("provider-config");
  const { config, problems } = readConfigText(await readConfigFile(file));
  if (!config) throw configError(file, problems);
  const program = { env: process.env, userAgent: "kip/0.1.0", logger: silentLogger };
  const { client } = await openClient(values, program);
  try {
    const clusterID = await readClusterID(client);
    const { controllerID = clusterID } = config;
    const currentTerm = new CurrentTerm();
    const { get: term } = currentTerm;
    const driverOptions = { controllerID, term, launches: false, logger: silentLogger };
    await using driver = await openDriver(config, driverOptions);
    const installation = { driver, client, controllerID, clusterID };
    if (isForReal) await removeNode(values, installation, currentTerm);
    const left = await findLeftOvers(installation);
    console.log(leftOversText(left));
    if (isForReal || verifies) process.exitCode = isCosting(left) ? 1 : 0;
    else if (isCosting(left)) console.log("Nothing was changed: --yes ends the instances.");
  } finally {
    client.close();
  }
}

async function removeNode(
  values: OptionValues,
  installation: Installation,
  currentTerm: CurrentTerm,
): Promise<void> {
  await cleanUpInTurn({
    ...installation,
    currentTerm,
    nodeName: values.required("nodename"),
    endsPods: values.isSet("end-pods"),
    clock: systemClock,
    logger: silentLogger,
    signal: stopRequest().signal,
    onProgress: (message) => console.log(message),
  });
}
