import { existsSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Logger } from "@kip/base";
import { applyUserData, parseUserData, readNoCloudSeed } from "@kip/cloud-init";

/**
 * Applies the seed that the boot script has fetched, once per boot: an agent that comes back after a crash finds the
 * mark of the one before it.
 *
 * @param directory where the boot script leaves its results
 * @throws {KipError} `SEED_INVALID`, `USER_DATA_INVALID`, `USER_DATA_YAML_UNSUPPORTED`
 */
export async function applySeedOnce(directory: string, logger: Logger): Promise<void> {
  const mark = path.join(directory, "seed-applied");
  if (existsSync(mark)) return;
  const folder = path.join(directory, "seed");
  const seed = readNoCloudSeed(folder);
  const config = parseUserData(seed.userData);
  for (const warning of config.warnings)
    logger.warn("User data not understood", { reason: warning });
  const hostname = config.hostname ?? seed.localHostname;
  const result = await applyUserData({ ...config, ...(hostname !== undefined && { hostname }) });
  for (const err of result.errors) logger.error("User data failed", { err });
  writeFileSync(mark, seed.instanceId);
  rmSync(folder, { recursive: true });
  logger.info("User data applied", { instance: seed.instanceId, files: result.written });
}
