/** A physical machine of the cloud for one owner. It is paid for from its allocation to its release, even without instances. */
export interface DedicatedHost {
  readonly id: string;
  readonly owner: string;
  /** The only instance type that it accepts. */
  readonly instanceType: string;
  readonly zone: string;
  /** RFC 3339. */
  readonly allocatedAt: string;
  /** IDs of all instances on it that have not ended, including those of other programs. */
  readonly instanceIds: readonly string[];
}

/** The result of releasing a host. */
export interface HostRelease {
  readonly host: DedicatedHost;
  /** Why the cloud keeps it for now, in one sentence. @default it was released */
  readonly refusal?: string | undefined;
}

/**
 * The dedicated hosts of a driver's owner. A launch with the launch type `dedicated` uses a host in its zone that accepts its
 * type and has room. If there is none, it allocates one. Only `releaseEmpty` releases hosts, and its caller calls it
 * repeatedly. Hosts without the owner's tag are never used, listed or released.
 */
export interface DedicatedHosts {
  /** All hosts of this owner that have not been released. */
  list(): Promise<readonly DedicatedHost[]>;
  /**
   * Releases the hosts that have no instance and no launch under way, from this process or, as far as a driver can tell, from
   * others. The AWS driver keeps a host until it is two minutes old.
   */
  releaseEmpty(): Promise<readonly HostRelease[]>;
}
