import { unresolved } from "./reference.ts";

/**
 * Most that is looked up for one pod, bytes: environment and files of volumes. A pod of the largest size
 * that the API server takes can name its content some ten thousand times.
 */
const maxContent = 64 * 1024 * 1024;

/**
 * Most of it that is made for the pod alone, characters: expanded variables, and fields of the pod. The rest is
 * in memory once for all pods that name it. Without this a pod of 2 KB would hold 64 MiB for its whole life.
 */
const maxOwnContent = 8 * 1024 * 1024;

/** What an entry costs besides its text: objects, and the work of making it. */
const entryBytes = 256;

/** Keeps count of what is looked up for one pod. */
export class ContentRoom {
  #left = maxContent;
  #ownLeft = maxOwnContent;

  /**
   * Takes room for one entry, for example a variable.
   *
   * @param bytes of its name and value, about
   * @throws {KipError} code `VK_UNRESOLVED` if there is no room
   */
  take(bytes: number): void {
    this.takeAll(1, bytes + entryBytes);
  }

  /**
   * Takes room for a text that no other pod shares, besides that of its entry.
   *
   * @throws {KipError} code `VK_UNRESOLVED` if there is no room
   */
  takeOwn(text: string): string {
    this.#ownLeft -= text.length;
    if (this.#ownLeft < 0)
      throw unresolved(
        `the pod's expanded variables and fields are larger than ${maxOwnContent} characters`,
      );
    return text;
  }

  /** Takes room for entries that are shared and cost some bytes each. */
  takeAll(count: number, bytesEach: number): void {
    this.#left -= count * bytesEach;
    if (this.#left < 0)
      throw unresolved(
        `the environment and the files of the pod's volumes are larger than ${maxContent} bytes`,
      );
  }
}
