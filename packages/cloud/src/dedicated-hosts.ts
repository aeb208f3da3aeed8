/** A whole machine of the cloud that one owner has. It is paid for from its allocation to its release, with instances or without. */
export interface DedicatedHost {
  readonly id: string;
  readonly owner: string;
  /** The only type of instances that it takes. */
  readonly instanceType: string;
  readonly zone: string;
  /** RFC 3339. */
  readonly allocatedAt: string;
  /** IDs of all instances on it that have not ended, those of other programs too. */
  readonly instanceIds: readonly string[];
}

/** What became of a host that was to be given back. */
export interface HostRelease {
  readonly host: DedicatedHost;
  /** Why the cloud keeps it for now, one sentence. @default it was given back */
  readonly refusal?: string | undefined;
}

/**
 * The hosts of a driver's owner. A launch with the launch type `dedicated` goes to one of them that takes its type in its zone and
 * has room, and allocates one if there is none. Nothing gives hosts back but `releaseEmpty`, which its caller repeats. Hosts without
 * the owner's tag are neither used, nor listed, nor given back.
 */
export interface DedicatedHosts {
  /** Every host of this owner that has not been given back. */
  list(): Promise<readonly DedicatedHost[]>;
  /**
   * Gives back the hosts that have no instance, and to which no launch is on its way: none of this process, and none of others as far
   * as a driver can tell. That of AWS keeps a host until it is two minutes old.
   */
  releaseEmpty(): Promise<readonly HostRelease[]>;
}
