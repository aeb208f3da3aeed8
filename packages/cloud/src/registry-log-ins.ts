import type { Secret } from "@kip/base";

/** Credentials for cells at a registry of the cloud. */
export interface RegistryLogIn {
  readonly username: string;
  readonly password: Secret;
  /** When the credentials expire, RFC 3339. Absent: never. */
  readonly expiresAt?: string | undefined;
}

/** An optional part of a driver: a cloud with registries of its own provides log-ins for them. */
export interface RegistryLogIns {
  /**
   * Credentials for a registry, or undefined if the registry is not part of this cloud. Called again shortly before they
   * expire.
   *
   * @param host as in image names, with its port if it has one
   * @throws {CloudError} of the closed set. Images are then pulled without credentials
   */
  registryLogIn(host: string, signal?: AbortSignal): Promise<RegistryLogIn | undefined>;
}

/** Whether a driver provides log-ins. */
export function givesRegistryLogIns<T extends object>(driver: T): driver is T & RegistryLogIns {
  return "registryLogIn" in driver && typeof driver.registryLogIn === "function";
}
