import { existsSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Logger } from "@kip/base";
import {
  applyUserData,
  defaultWorkspace,
  emptyConfig,
  isApplied,
  noteApplied,
  parseUserData,
  readNoCloudSeed,
  type InstanceData,
} from "@kip/cloud-init";

/** Whether this machine is a template's, and no copy that is a machine of its own already. */
export function isTemplate(directory: string): boolean {
  return existsSync(path.join(directory, "template")) && !isSeedApplied(directory);
}

/** Whether this machine has had its user data since it was started. */
function isSeedApplied(directory: string): boolean {
  return existsSync(markOf(directory));
}

/** Where the user data of a machine is put. */
interface ApplySeedOptions {
  /** Where the boot script leaves its results. */
  readonly directory: string;
  /** Put before every path; nothing but files is touched then. @default "/" */
  readonly root?: string | undefined;
  /** Where it is noted, below the root, that the user data was applied. @default "/var/lib/milpa-cloudinit" */
  readonly workspace?: string | undefined;
  readonly logger: Logger;
}

/**
 * Applies the seed that the boot script has fetched, once per boot: an agent that comes back after a crash finds the
 * mark of the one before it.
 *
 * @throws {CodedError} `SEED_INVALID`, `USER_DATA_INVALID`
 */
export async function applySeedOnce(options: ApplySeedOptions): Promise<void> {
  const folder = path.join(options.directory, "seed");
  if (!isSeedApplied(options.directory)) await applySeed(await readNoCloudSeed(folder), options);
  // It holds the cell's key. An agent that was killed here has left it.
  rmSync(folder, { recursive: true, force: true });
}

/**
 * Applies a seed, and leaves the mark of this boot. A machine that is started again has had its user data: only its name is set, as
 * what the user data wrote, such as the agent's identity, may have changed since.
 *
 * @throws as {@link applySeedOnce}
 */
export async function applySeed(seed: InstanceData, options: ApplySeedOptions): Promise<void> {
  const { logger, root, workspace = defaultWorkspace } = options;
  const config = await parseUserData(seed.userData, { addresses: seed.addresses });
  for (const warning of config.warnings)
    logger.warn("Ignored a part of the user data", { reason: warning });
  const hostname = config.hostname ?? seed.localHostname;
  const isAgain = isApplied(seed.instanceId, { root, workspace });
  const result = await applyUserData(
    { ...(isAgain ? emptyConfig : config), hostname },
    {
      workspace,
      ...(isAgain ? {} : { publicKeys: seed.publicKeys, addresses: seed.addresses }),
      ...(root === undefined ? {} : { root, setHostname: async () => {} }),
    },
  );
  for (const err of result.errors) logger.error("Could not apply a part of the user data", { err });
  if (!isAgain) noteApplied(seed.instanceId, { root, workspace });
  writeFileSync(markOf(options.directory), seed.instanceId);
  logger.info("User data applied", { instance: seed.instanceId, files: result.written });
}

function markOf(directory: string): string {
  return path.join(directory, "seed-applied");
}
