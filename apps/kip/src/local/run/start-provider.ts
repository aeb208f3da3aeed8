import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { stringify } from "yaml";
import { localRegistryHost } from "../cluster/layout.ts";
import { registryPort } from "../cluster/host-ports.ts";
import { readUserSettings, type UserSettings } from "../prepare/user-settings.ts";
import { cellDiskBytes, cloudSettings, imagesOf } from "./cloud-settings.ts";
import type { CloudChoice } from "../ec2/start-ec2.ts";
import type { ClusterContext } from "../cluster/cluster-context.ts";
import { logLimitBytes, supervise } from "./supervise.ts";
import type { LocalCloud } from "@kip/cloud-local";
import type { ControlPlane, SupervisedProgram } from "@kip/control-plane";
import { allocatorSettings, nodeFlags } from "@kip/kip/process-settings";

/** Starts the provider, the program that registers the virtual node and runs its pods. */
export async function startProvider(
  { options, layout, logger }: ClusterContext,
  cloud: LocalCloud,
  controlPlane: ControlPlane,
  otherCloud?: CloudChoice,
): Promise<SupervisedProgram> {
  const file = (name: string): string => path.join(layout.stateDir, name);
  const nodeName = options.required("node-name");
  const pair = await controlPlane.issueKubeletCertificate(nodeName, [cloud.hostAddress]);
  await mkdir(layout.podLogDir, { recursive: true, mode: 0o700 });
  await writePrivate(file("kubelet.crt"), pair.certificate);
  await writePrivate(file("kubelet.key"), pair.key);
  await writePrivate(file("client-ca.crt"), controlPlane.ca);
  await writePrivate(
    layout.providerConfig,
    stringify(await providerConfig({ options, layout }, cloud, otherCloud)),
  );
  return supervise(logger, {
    name: "kip",
    file: process.execPath,
    args: [
      ...nodeFlags,
      path.join(import.meta.dirname, "../../main.ts"),
      `--provider-config=${layout.providerConfig}`,
      `--kubeconfig=${controlPlane.kipKubeconfig}`,
      `--nodename=${nodeName}`,
      `--node-ip=${cloud.hostAddresses.join(",")}`,
      `--tls-cert-file=${file("kubelet.crt")}`,
      `--tls-private-key-file=${file("kubelet.key")}`,
      `--client-ca-file=${file("client-ca.crt")}`,
      `--log-dir=${layout.podLogDir}`,
      "--disable-taint",
      // There is only one provider, and it is only started again after it has ended.
      "--leader-elect=false",
      ...(options.isSet("act-as-node") ? ["--act-as-node"] : []),
    ],
    env: {
      ...allocatorSettings,
      ...(otherCloud ? { ...withoutAws(process.env), ...otherCloud.environment } : process.env),
    },
    logFile: layout.providerLog,
    logLimitBytes,
  });
}

/** Content of the provider's `provider.yaml`. */
async function providerConfig(
  { options, layout }: Pick<ClusterContext, "options" | "layout">,
  cloud: LocalCloud,
  otherCloud: CloudChoice | undefined,
) {
  const settingsFile = options.text("settings");
  const settings: UserSettings =
    settingsFile === undefined ? { registries: [] } : await readUserSettings(settingsFile);
  const endpoint = `http://${cloud.hostAddress}:${registryPort(options)}`;
  return {
    cloud: otherCloud?.cloud ?? {
      local: { ...cloudSettings(options, layout), faultInjection: true },
    },
    cells: {
      ...(otherCloud ? {} : { bootImageSpec: { id: imagesOf(options).join(",") } }),
      defaultVolumeSize: String(cellDiskBytes),
      ...settings.cells,
    },
    kubelet: { ...(givesPods(settings) ? {} : { pods: "100" }), ...settings.kubelet },
    registries: [{ host: localRegistryHost, endpoint }, ...settings.registries],
    images: settings.images,
  };
}

/** Removes settings for AWS, which must not affect the local EC2. */
function withoutAws(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => !name.startsWith("AWS_")),
  );
}

/** Whether the user's settings give the number of pods in the long form. It must not differ from the short one. */
function givesPods({ kubelet }: UserSettings): boolean {
  const capacity = kubelet?.["capacity"];
  return typeof capacity === "object" && capacity !== null && "pods" in capacity;
}

/** Writes a file that only root may read, even if it existed with another mode. */
async function writePrivate(file: string, text: string): Promise<void> {
  await rm(file, { force: true });
  await writeFile(file, text, { mode: 0o600 });
}
