import { unresolved } from "./reference.ts";

/**
 * Limit for the resolved content of one pod, bytes: environment and files of volumes. A pod of the largest size that the API
 * server accepts can refer to its content some ten thousand times.
 */
const maxContent = 64 * 1024 * 1024;

/**
 * Limit for the content that no other pod shares, characters: expanded variables, fields of the pod, and trust bundles. All
 * other content is in memory once for all pods that refer to it. Without this limit, a pod of 2 KB would hold 64 MiB for its
 * whole life.
 */
const maxOwnContent = 8 * 1024 * 1024;

/** Cost of an entry besides its text, for its objects and the work of creating it. */
export const entryBytes = 256;

/** Cost of an entry that a pod has of its own although its text is shared. */
const ownEntryBytes = 64;

/** Counts the resolved content of one pod. */
export class ContentBudget {
  #remaining = maxContent;
  #remainingOwn = maxOwnContent;

  /**
   * Counts one entry, for example a variable.
   *
   * @param bytes approximate size of its name and value
   * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it exceeds the budget
   */
  take(bytes: number): void {
    this.takeAll(1, bytes + entryBytes);
  }

  /**
   * Counts a text that other pods may not share, in addition to its entry.
   *
   * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it exceeds the budget
   */
  takeOwn<T extends { readonly length: number }>(text: T): T {
    this.#remainingOwn -= text.length;
    if (this.#remainingOwn < 0)
      throw unresolved(
        `the pod's expanded variables, fields and trust bundles are larger than ${maxOwnContent} characters`,
      );
    return text;
  }

  /**
   * Counts an entry that results from reading a whole object. A pod of some hundred bytes can have hundreds of thousands of
   * them, and keeps them for its lifetime.
   *
   * @param ownLength characters of the texts that no other pod shares
   * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it exceeds the budget
   */
  takeOwnEntry(ownLength = 0): void {
    this.takeOwn({ length: ownLength + ownEntryBytes });
  }

  /** Counts entries with shared texts, each with a cost of some bytes. */
  takeAll(count: number, bytesEach: number): void {
    this.#remaining -= count * bytesEach;
    if (this.#remaining < 0)
      throw unresolved(
        `the environment and the files of the pod's volumes are larger than ${maxContent} bytes`,
      );
  }
}
