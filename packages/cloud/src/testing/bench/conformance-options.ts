import type { CloudFaults } from "../../faults/cloud-faults.ts";
import type { CloudDriver, Instance } from "../../cloud-driver.ts";

/** A disk of an instance, other than its root disk, as the guest sees it. */
export interface GuestDisk {
  readonly serial: string;
  readonly sizeBytes: number;
  /** The first line on the disk. Empty if the disk is empty. */
  readonly content: string;
}

/** The disks that a guest sees. */
export interface GuestView {
  /** Size of the root disk, bytes. */
  readonly rootBytes: number;
  readonly disks: readonly GuestDisk[];
}

/** An image whose guest reports its disks. */
export interface ConformanceGuest {
  readonly imageSpec: Readonly<Record<string, string>>;
  /**
   * The guest's present view. The guest also writes its instance's name, as a line, at the beginning of each empty disk. This
   * tells the suite which data is on a disk.
   */
  readonly look: (instance: Instance) => Promise<GuestView>;
}

/** An optional part of the contract. Without it, its tests are skipped and the reason is shown. */
export type OptionalPart =
  "volumes" | "interruption" | "faults" | "guest" | "callCount" | "userData";

/** Options of {@link describeCloudDriver}. */
export interface CloudConformanceOptions {
  /** Opens the driver as one owner. Called many times: each handle stands for another process, or for kip after a restart. */
  readonly open: () => Promise<CloudDriver>;
  /** Opens the driver as another owner of the same cloud. */
  readonly openAsStranger: () => Promise<CloudDriver>;
  /** Names an image that boots and keeps running. */
  readonly imageSpec: Readonly<Record<string, string>>;
  /** Text that this image writes to its console. */
  readonly consoleText: RegExp;
  /** Causes failures of the cloud. */
  readonly faults?: CloudFaults | undefined;
  /** Looks at an instance's disks from inside. */
  readonly guest?: ConformanceGuest | undefined;
  /** Returns the user data that a running instance gets from the cloud. */
  readonly userDataOf?: ((instance: Instance) => Promise<Uint8Array>) | undefined;
  /** Number of calls to the cloud so far, of all handles together. */
  readonly callCount?: (() => number) | undefined;
  /** Optional parts that this cloud lacks, and why. */
  readonly without?: Readonly<Partial<Record<OptionalPart, string>>> | undefined;
  /** Topics to run. @default all */
  readonly topics?: readonly string[] | undefined;
  /** Seed of random schedules. @default 1 */
  readonly seed?: number | undefined;
  /** Number of random schedules, and their length. @default 2 of 12 steps */
  readonly schedules?: { readonly count: number; readonly steps: number } | undefined;
  /** Time limit of one test, milliseconds. @default 120000 */
  readonly timeoutMs?: number | undefined;
}
