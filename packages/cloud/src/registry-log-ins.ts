import type { Secret } from "@kip/base";

/** The identity of cells at a registry of the cloud. */
export interface RegistryLogIn {
  readonly username: string;
  readonly password: Secret;
  /** When it ends, RFC 3339; absent: never. */
  readonly expiresAt?: string | undefined;
}

/** What a driver may have besides: a cloud that has registries of its own gives log-ins for them. */
export interface RegistryLogIns {
  /**
   * A log-in for a registry, or undefined for one that is not this cloud's. Asked again when the log-in is about to end.
   *
   * @param host as it stands in image names, with its port if it has one
   * @throws {CloudError} of the closed set; images are then pulled without
   */
  registryLogIn(host: string, signal?: AbortSignal): Promise<RegistryLogIn | undefined>;
}

/** Whether a driver gives log-ins. */
export function givesRegistryLogIns<T extends object>(driver: T): driver is T & RegistryLogIns {
  return "registryLogIn" in driver && typeof driver.registryLogIn === "function";
}
