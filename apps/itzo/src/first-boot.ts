import { existsSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Logger } from "@kip/base";
import {
  applyUserData,
  createEc2Source,
  defaultWorkspace,
  emptyConfig,
  isApplied,
  noteApplied,
  parseUserData,
  readNoCloudSeed,
  type DataSource,
  type InstanceData,
} from "@kip/cloud-init";

/** Whether this machine is a template, and not yet a clone with its own identity. */
export function isTemplate(directory: string): boolean {
  return existsSync(path.join(directory, "template")) && !isSeedApplied(directory);
}

/** Whether this machine has applied its user data since it booted. */
function isSeedApplied(directory: string): boolean {
  return existsSync(markOf(directory));
}

/** Options of {@link applySeedOnce}. */
export interface SeedOptions {
  /** Where the boot script leaves its results. */
  readonly directory: string;
  /** The source of user data for a machine without a seed disk. @default EC2's metadata service */
  readonly metadata?: DataSource | undefined;
  /** Prefix of every path. If set, only files are changed. @default "/" */
  readonly root?: string | undefined;
  /** Where to record, below the root, that the user data was applied. @default "/var/lib/milpa-cloudinit" */
  readonly workspace?: string | undefined;
  readonly logger: Logger;
}

/**
 * Applies the user data once per boot. An agent that was restarted after a crash finds the mark of the previous one. The same
 * image boots everywhere: if the boot script has found a seed disk, the user data is read from that, otherwise from the
 * metadata service.
 *
 * @throws {CodedError} `SEED_INVALID`, `METADATA_UNAVAILABLE`, `METADATA_INVALID`, `USER_DATA_INVALID`
 */
export async function applySeedOnce(options: SeedOptions): Promise<void> {
  const folder = path.join(options.directory, "seed");
  if (!isSeedApplied(options.directory)) await applySeed(await readSeed(folder, options), options);
  // The folder contains the cell's key. If an agent was killed before this line, the next one removes it.
  rmSync(folder, { recursive: true, force: true });
}

async function readSeed(
  folder: string,
  { directory, metadata }: SeedOptions,
): Promise<InstanceData> {
  if (existsSync(path.join(folder, "meta-data"))) return await readNoCloudSeed(folder);
  const source = metadata ?? createEc2Source();
  const data = await source.read(new AbortController().signal);
  writeFileSync(metadataMarkOf(directory), source.name); // before the mark that the data was applied
  return data;
}

/** Whether this machine got its user data from EC2's metadata service in this boot. */
export function hasEc2Metadata(directory: string): boolean {
  return existsSync(metadataMarkOf(directory));
}

function metadataMarkOf(directory: string): string {
  return path.join(directory, "metadata-source");
}

/**
 * Applies a seed, and leaves the mark for this boot. If the machine was rebooted, its user data was applied earlier. Then only
 * its name is set, because files from the user data, such as the agent's identity, may have changed since.
 *
 * @throws the errors of {@link applySeedOnce}
 */
export async function applySeed(
  seed: InstanceData,
  options: Omit<SeedOptions, "metadata">,
): Promise<void> {
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
