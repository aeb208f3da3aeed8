import { silentLogger, type Option, type OptionValues } from "@kip/base";
import { CurrentTerm, readClusterID, type Installation } from "@kip/kip";
import { openClient } from "@kip/virtual-kubelet/command";
import { configError, readConfigFile, readConfigText } from "../config/read-provider-config.ts";
import { openDriver } from "../provider/driver.ts";

/** Options that name an installation of kip, for commands that remove parts of it. */
export const installationOptions: readonly Option[] = [
  { flag: "provider-config", type: "string", help: "path of the provider.yaml that kip runs with" },
  {
    flag: "kubeconfig",
    type: "string",
    help: "kubeconfig file. Default: the first existing file of those in KUBECONFIG (a:b), else ~/.kube/config",
  },
  {
    flag: "nodename",
    type: "string",
    env: ["DEFAULT_NODE_NAME", "DEFAULTNODE_NAME"],
    fallback: "virtual-kubelet",
    help: "name of the node",
  },
];

/** An installation whose cloud and API can be reached. Disposing of it closes the connections. */
export interface OpenedInstallation extends Installation, AsyncDisposable {
  /** Returns the term in which the cloud is changed. */
  readonly currentTerm: CurrentTerm;
}

/** Opens the cloud and the API that {@link installationOptions} name. @throws {KipError} if the configuration is not valid */
export async function openInstallation(values: OptionValues): Promise<OpenedInstallation> {
  const { config, problems } = readConfigText(
    await readConfigFile(values.required("provider-config")),
  );
  if (!config) throw configError(values.required("provider-config"), problems);
  await using stack = new AsyncDisposableStack();
  const program = { env: process.env, userAgent: "kip/0.1.0", logger: silentLogger };
  const { client } = await openClient(values, program);
  stack.defer(() => client.close());
  const clusterID = await readClusterID(client);
  const { controllerID = clusterID } = config;
  const currentTerm = new CurrentTerm();
  const { get: term } = currentTerm;
  const driverOptions = { controllerID, term, launches: false, logger: silentLogger };
  const driver = stack.use(await openDriver(config, driverOptions));
  const opened = stack.move();
  return {
    driver,
    client,
    controllerID,
    clusterID,
    currentTerm,
    [Symbol.asyncDispose]: async () => await opened.disposeAsync(),
  };
}
