import { unresolved } from "./reference.ts";

/**
 * Limit of what is looked up for one pod, bytes: environment and files of volumes. A pod of the largest size
 * that the API server takes can name its content some ten thousand times.
 */
const maxContent = 64 * 1024 * 1024;

/**
 * Limit of the part that can be made for the pod alone, characters: expanded variables, fields of the pod, and trust bundles.
 * The rest is in memory once for all pods that name it. Without this a pod of 2 KB would hold 64 MiB for its whole life.
 */
const maxOwnContent = 8 * 1024 * 1024;

/** What an entry costs besides its text: objects, and the work of making it. */
export const entryBytes = 256;

/** What an entry costs each pod whose own it is although its text is shared. */
const ownEntryBytes = 64;

/** Counts what is looked up for one pod. */
export class ContentBudget {
  #remaining = maxContent;
  #remainingOwn = maxOwnContent;

  /**
   * Counts one entry, for example a variable.
   *
   * @param bytes of its name and value, about
   * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it exceeds the budget
   */
  take(bytes: number): void {
    this.takeAll(1, bytes + entryBytes);
  }

  /**
   * Counts a text that perhaps no other pod shares, in addition to its entry.
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
   * Counts an entry that is made of an object as a whole: a pod of some hundred bytes can have hundreds of thousands of them, and keeps
   * them for life.
   *
   * @param ownLength characters of the texts that are the pod's alone
   * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it exceeds the budget
   */
  takeOwnEntry(ownLength = 0): void {
    this.takeOwn({ length: ownLength + ownEntryBytes });
  }

  /** Counts entries whose texts are shared, and that cost some bytes each. */
  takeAll(count: number, bytesEach: number): void {
    this.#remaining -= count * bytesEach;
    if (this.#remaining < 0)
      throw unresolved(
        `the environment and the files of the pod's volumes are larger than ${maxContent} bytes`,
      );
  }
}
