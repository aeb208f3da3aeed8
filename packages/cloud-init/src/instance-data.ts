/** The addresses of a machine that its cloud knows. */
export interface InstanceAddresses {
  readonly publicIpv4?: string | undefined;
  readonly privateIpv4?: string | undefined;
  readonly publicIpv6?: string | undefined;
  readonly privateIpv6?: string | undefined;
}

/** What a cloud gives a machine at its start. */
export interface InstanceData {
  /** Names this instance; user data is applied once for each value. */
  readonly instanceId: string;
  /** As found; for `parseUserData`. Empty when there is none. */
  readonly userData: Uint8Array;
  /** Host name that the platform gave. */
  readonly localHostname?: string | undefined;
  /** Public SSH keys, one line each. @default none */
  readonly publicKeys?: readonly string[] | undefined;
  /** @default the platform does not say */
  readonly addresses?: InstanceAddresses | undefined;
}

/** A place where a machine finds its {@link InstanceData}. */
export interface DataSource {
  /** For messages: `EC2`, `GCE`, `Azure`, `NoCloud`. */
  readonly name: string;
  /**
   * Looks once, without repetition, whether this source has data for this machine.
   *
   * @throws the signal's reason; nothing else: a source that fails is one that is not available yet
   */
  isAvailable(signal: AbortSignal): Promise<boolean>;
  /**
   * Reads all of it.
   *
   * @throws {CloudInitError} `METADATA_UNAVAILABLE`, `METADATA_INVALID`, `SEED_INVALID`
   */
  read(signal: AbortSignal): Promise<InstanceData>;
}
