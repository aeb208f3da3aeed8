import { existsSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Logger } from "@kip/base";
import { applyUserData, parseUserData, readNoCloudSeed, type NoCloudSeed } from "@kip/cloud-init";

/** Whether this machine is a template's, and no copy that is a machine of its own already. */
export function isTemplate(directory: string): boolean {
  return existsSync(path.join(directory, "template")) && !isSeedApplied(directory);
}

/** Whether this machine has had its user data since it was started. */
function isSeedApplied(directory: string): boolean {
  return existsSync(markOf(directory));
}

/**
 * Applies the seed that the boot script has fetched, once per boot: an agent that comes back after a crash finds the
 * mark of the one before it.
 *
 * @param directory where the boot script leaves its results
 * @throws {CodedError} `SEED_INVALID`, `USER_DATA_INVALID`, `USER_DATA_YAML_UNSUPPORTED`
 */
export async function applySeedOnce(directory: string, logger: Logger): Promise<void> {
  const folder = path.join(directory, "seed");
  if (!isSeedApplied(directory)) await applySeed(readNoCloudSeed(folder), { directory, logger });
  // It holds the cell's key. An agent that was killed here has left it.
  rmSync(folder, { recursive: true, force: true });
}

/** Applies a seed, and leaves the mark. @throws as {@link applySeedOnce} */
export async function applySeed(
  seed: NoCloudSeed,
  options: {
    readonly directory: string;
    /** Put before every path; nothing but files is touched then. @default "/" */
    readonly root?: string | undefined;
    readonly logger: Logger;
  },
): Promise<void> {
  const { logger, root } = options;
  const config = parseUserData(seed.userData);
  for (const warning of config.warnings)
    logger.warn("Ignored a part of the user data", { reason: warning });
  const result = await applyUserData(
    { ...config, hostname: config.hostname ?? seed.localHostname },
    root === undefined ? {} : { root, setHostname: async () => {} },
  );
  for (const err of result.errors) logger.error("Could not apply a part of the user data", { err });
  writeFileSync(markOf(options.directory), seed.instanceId);
  logger.info("User data applied", { instance: seed.instanceId, files: result.written });
}

function markOf(directory: string): string {
  return path.join(directory, "seed-applied");
}
