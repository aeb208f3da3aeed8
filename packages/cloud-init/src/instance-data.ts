/** The machine's addresses, as far as its cloud knows them. */
export interface InstanceAddresses {
  readonly publicIpv4?: string | undefined;
  readonly privateIpv4?: string | undefined;
  readonly publicIpv6?: string | undefined;
  readonly privateIpv6?: string | undefined;
}

/** Data that a cloud provides to a machine at its start. */
export interface InstanceData {
  /** ID of this instance. User data is applied once for each value. */
  readonly instanceId: string;
  /** Unchanged, for `parseUserData`. Empty if there is none. */
  readonly userData: Uint8Array;
  /** Host name from the platform. */
  readonly localHostname?: string | undefined;
  /** Public SSH keys, one line each. @default none */
  readonly publicKeys?: readonly string[] | undefined;
  /** @default the platform does not provide them */
  readonly addresses?: InstanceAddresses | undefined;
}

/** A source of a machine's {@link InstanceData}. */
export interface DataSource {
  /** Name for messages: `EC2`, `GCE`, `Azure`, `NoCloud`. */
  readonly name: string;
  /**
   * Checks once, without retries, whether this source has data for this machine.
   *
   * @throws only the signal's reason: a source that fails counts as not available yet
   */
  isAvailable(signal: AbortSignal): Promise<boolean>;
  /**
   * Reads all data.
   *
   * @throws {CloudInitError} `METADATA_UNAVAILABLE`, `METADATA_INVALID`, `SEED_INVALID`
   */
  read(signal: AbortSignal): Promise<InstanceData>;
}
