import { defined, systemClock, type Clock, type Logger } from "@kip/base";
import type { ChangeTerm, CloudDriver } from "@kip/cloud";
import { createLocalCloud, type LocalCloud } from "@kip/cloud-local";
import type { ProviderConfig } from "@kip/kip";
import { markerVariable } from "../local/cluster/processes.ts";
import { driverNames } from "../config/driver-names.ts";
import { KipError } from "../errors.ts";

/** Options of {@link openDriver}, in addition to the configuration. */
export interface OpenDriverOptions {
  readonly controllerID: string;
  /** Returns the term for a change of the cloud that begins now. @default a term that never ends */
  readonly term: (() => ChangeTerm) | undefined;
  /** A file with instance types and prices. @default none */
  readonly priceFile?: string | undefined;
  /** `false` if the driver's types and prices are not needed. @default true */
  readonly launches?: boolean | undefined;
  readonly logger: Logger;
  /** Ends the opening, where the driver can end it. @default never */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Opens the driver of the configured cloud.
 *
 * @throws {KipError} `CLOUD_DRIVER_MISSING` for a cloud that this version has no driver for; the signal's reason
 */
export async function openDriver(
  config: ProviderConfig,
  { controllerID, term, priceFile, launches, logger, signal }: OpenDriverOptions,
): Promise<CloudDriver> {
  const { name } = config.cloud;
  if (!driverNames.includes(name)) {
    throw new KipError(
      "CLOUD_DRIVER_MISSING",
      `Cannot use cloud "${name}": this version has no driver for it`,
      { remedy: `Use cloud.${driverNames.join(" or cloud.")}` },
    );
  }
  const options = {
    owner: controllerID,
    clock: systemClock,
    logger: logger.with({ component: "cloud", driver: name }),
  };
  if (name === "aws")
    return await openAws(config, { ...options, term, priceFile, launches, signal });
  if (priceFile !== undefined)
    logger.warn(
      "--instance-data-path has no effect: the local cloud has its own types, which cost nothing",
    );
  return await openLocal(config.cloud.local, { ...options, launches });
}

interface DriverOptions {
  readonly owner: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Loaded on demand, because the SDK is large. */
async function openAws(
  config: ProviderConfig,
  options: DriverOptions & Pick<OpenDriverOptions, "term" | "priceFile" | "launches" | "signal">,
): Promise<CloudDriver> {
  const { openAwsCloud } = await import("@kip/cloud-aws");
  const { accessKeyID: accessKeyId, secretAccessKey, ...settings } = config.cloud.aws;
  const { extraCIDRs, extraSecurityGroups } = config;
  const hasKeys = accessKeyId !== undefined && secretAccessKey !== undefined;
  return await openAwsCloud({
    ...options,
    ...settings,
    extraCIDRs,
    extraSecurityGroups,
    environment: process.env,
    credentials: hasKeys ? { accessKeyId, secretAccessKey } : undefined,
  });
}

async function openLocal(
  local: ProviderConfig["cloud"]["local"],
  { launches = true, ...options }: DriverOptions & Pick<OpenDriverOptions, "launches">,
): Promise<CloudDriver> {
  // Machines outlive the processes of a local cluster, so they must not carry its marker.
  delete process.env[markerVariable];
  const stateDir = local.stateDir ?? "/var/lib/kip/cells";
  const cloud = await createLocalCloud(
    defined({
      ...options,
      stateDir,
      imagesDir: local.imagesDir ?? "/var/cache/kip/images",
      namespace: local.namespace,
      range: local.range,
      ipv6Range: local.ipv6Range,
      // A command that launches nothing needs no QEMU for other architectures.
      architectures: launches ? local.architectures : undefined,
      internet: local.internet === "off" ? false : ("auto" as const),
      hostPorts: local.hostPorts,
      serviceRanges: local.serviceRanges,
      hostServices: local.hostServices,
      nodePortAddresses: local.nodePortAddresses,
      dnsService: local.dnsService,
      templates: local.templates,
      templatesDir: local.templatesDir,
    }),
  );
  await cloud.prepareNetwork();
  return local.faultInjection === true ? await withFaults(cloud, stateDir, options.logger) : cloud;
}

/** Wraps the cloud of `kip up`, so that `kip local` can cause faults in it. */
async function withFaults(
  cloud: LocalCloud,
  stateDir: string,
  logger: Logger,
): Promise<CloudDriver> {
  const { withFaultInjection } = await import("@kip/cloud-local/faults");
  return await withFaultInjection(cloud, { stateDir, clock: systemClock, logger });
}
