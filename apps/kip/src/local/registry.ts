import { access, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { errorText, KipError, systemClock, type Logger } from "@kip/base";
import { parseReference, pushLayout } from "@kip/oci-image";
import { superviseChild, type SupervisedChild } from "./supervised-child.ts";

/** Name under which pods reach the registry of the local cluster: `kip.local/demo:latest`. */
export const localRegistryHost = "kip.local";
export const localRegistryPort = 5000;
const program = "/usr/bin/docker-registry";

/** What {@link startRegistry} needs. */
export interface RegistryOptions {
  /** Address of the host's end of the cells' network. */
  readonly address: string;
  readonly dir: string;
  readonly logFile: string;
  readonly logger: Logger;
}

/** Whether Debian's docker-registry is installed; without it, cells pull from other registries only. */
export async function hasRegistry(): Promise<boolean> {
  try {
    await access(program);
    return true;
  } catch {
    return false;
  }
}

/** Starts a registry for the user's own images; it listens on the cells' network alone. */
export async function startRegistry(options: RegistryOptions): Promise<SupervisedChild> {
  const { address, dir, logFile, logger } = options;
  await mkdir(dir, { recursive: true });
  const config = path.join(dir, "config.json");
  const document = {
    version: "0.1",
    log: { level: "warn" },
    storage: { filesystem: { rootdirectory: path.join(dir, "data") }, delete: { enabled: true } },
    http: {
      addr: `${address}:${localRegistryPort}`,
      headers: { "X-Content-Type-Options": ["nosniff"] },
    },
  };
  await writeFile(config, JSON.stringify(document));
  return superviseChild({
    name: "registry",
    command: program,
    args: ["serve", config],
    env: process.env,
    logFile,
    clock: systemClock,
    logger,
  });
}

/** Puts an image of a layout directory into the local registry, as soon as that answers. */
export async function pushToRegistry(
  layoutDir: string,
  name: string,
  address: string,
): Promise<void> {
  const reference = `${localRegistryHost}/${name}`;
  const endpoint = `http://${address}:${localRegistryPort}`;
  for (let attempt = 0; ; attempt++) {
    try {
      await pushLayout(layoutDir, parseReference(reference), {
        registries: [{ host: localRegistryHost, endpoint }],
      });
      return;
    } catch (error) {
      if (attempt >= 100) {
        throw new KipError(
          "LOCAL_REGISTRY_FAILED",
          `Cannot put "${reference}" into the local registry: ${errorText(error)}`,
          { cause: error },
        );
      }
      // The registry says nothing when it begins to listen: ask again until it does.
      await systemClock.sleep(100);
    }
  }
}
