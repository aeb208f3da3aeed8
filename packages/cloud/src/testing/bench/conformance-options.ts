import type { CloudFaults } from "../../faults/cloud-faults.ts";
import type { CloudDriver, Instance } from "../../cloud-driver.ts";

/** A disk of an instance besides its root disk, as the guest sees it. */
export interface GuestDisk {
  readonly serial: string;
  readonly sizeBytes: number;
  /** The first line that is written on the disk; empty if nothing is. */
  readonly content: string;
}

/** What a guest sees of its disks. */
export interface GuestView {
  /** Size of the root disk, bytes. */
  readonly rootBytes: number;
  readonly disks: readonly GuestDisk[];
}

/** An image whose guest shows what it sees. */
export interface ConformanceGuest {
  readonly imageSpec: Readonly<Record<string, string>>;
  /**
   * What the guest sees now. The guest also writes its instance's name, as a line, at the beginning of each disk that it finds
   * empty; this is how the suite knows what is on a disk.
   */
  readonly look: (instance: Instance) => Promise<GuestView>;
}

/** A part of the contract that a cloud may not have yet; its tests are skipped, with the reason given. */
export type OptionalPart =
  "volumes" | "interruption" | "faults" | "guest" | "callCount" | "userData";

/** What a driver's test gives to the suite. */
export interface CloudConformanceOptions {
  /**
   * Opens the driver, as one owner. Called many times: each call stands for another process, or for
   * kip after a restart.
   */
  readonly open: () => Promise<CloudDriver>;
  /** Opens the driver as another owner of the same cloud. */
  readonly openAsStranger: () => Promise<CloudDriver>;
  /** Names an image that boots and stays up. */
  readonly imageSpec: Readonly<Record<string, string>>;
  /** What that image writes to its console. */
  readonly consoleText: RegExp;
  /** Makes the cloud fail on demand. */
  readonly faults?: CloudFaults | undefined;
  /** How the suite looks into an instance. */
  readonly guest?: ConformanceGuest | undefined;
  /** What the cloud gives an instance that runs as its user data. */
  readonly userDataOf?: ((instance: Instance) => Promise<Uint8Array>) | undefined;
  /** How many calls the cloud has had until now, of all handles together. */
  readonly callCount?: (() => number) | undefined;
  /** Parts that this cloud does not have, and why. */
  readonly without?: Readonly<Partial<Record<OptionalPart, string>>> | undefined;
  /** Topics to run. @default all */
  readonly topics?: readonly string[] | undefined;
  /** Seed of random schedules. @default 1 */
  readonly seed?: number | undefined;
  /** How many random schedules are run, and how long each is. @default 2 of 12 steps */
  readonly schedules?: { readonly count: number; readonly steps: number } | undefined;
  /** Longest that one test may take, milliseconds. @default 120000 */
  readonly timeoutMs?: number | undefined;
}
