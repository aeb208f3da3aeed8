import { decode, type CodedError } from "@kip/base";
import { limits } from "./limits.ts";
import type { PolicyView } from "./policy-view.ts";
import type { ServiceView } from "./service-view.ts";
import { decodeLine, type GroupLine } from "./view-line.ts";

/** What is put in force together: the lines up to an `end`. */
export interface ViewChange {
  /** Rises by one with each change of a connection. */
  readonly number: number;
  /** Services that have changed; undefined for those that are gone. */
  readonly services: ReadonlyMap<string, ServiceView | undefined>;
  /** Services of these buckets that neither `services` nor `kept` names are gone. */
  readonly buckets: readonly number[];
  /** Services that are as they were sent before. @default none */
  readonly kept?: ReadonlySet<string> | undefined;
  readonly groups: readonly GroupLine[];
  /** Absent if it is as before. */
  readonly policy?: PolicyView | undefined;
}

const lineEnd = 0x0a;

/**
 * Reads changes from bytes as they come. Keeps at most the change that is not complete.
 */
export class ChangeReader {
  #rest: Buffer[] = [];
  #restBytes = 0;
  #changeBytes = 0;
  #open = emptyChange();

  /**
   * The changes that are complete with these bytes.
   *
   * @throws {CodedError} `DECODE_FAILED` for a line that is not valid, or a change that is too large
   */
  *push(chunk: Buffer): Generator<ViewChange> {
    let rest = chunk;
    for (let end = rest.indexOf(lineEnd); end >= 0; end = rest.indexOf(lineEnd)) {
      const line = Buffer.concat([...this.#rest, rest.subarray(0, end)]);
      this.#rest = [];
      this.#restBytes = 0;
      rest = rest.subarray(end + 1);
      const change = this.#take(line);
      if (change) yield change;
    }
    if (rest.length === 0) return;
    this.#restBytes += rest.length;
    if (this.#restBytes > limits.lineBytes) throw tooLarge(limits.lineBytes);
    this.#rest.push(Buffer.from(rest));
  }

  #take(bytes: Buffer): ViewChange | undefined {
    this.#changeBytes += bytes.length;
    if (this.#changeBytes > limits.changeBytes) throw tooLarge(limits.changeBytes);
    const line = decodeLine(bytes.toString());
    const open = this.#open;
    switch (line.kind) {
      case "service":
        open.services.set(line.key, line.view);
        return undefined;
      case "bucket":
        open.buckets.push(line.bucket);
        return undefined;
      case "kept":
        (open.kept ??= new Set()).add(line.key);
        return undefined;
      case "group":
        open.groups.push(line);
        return undefined;
      case "policy":
        open.policy = line.policy;
        return undefined;
      case "end":
        break;
    }
    this.#open = emptyChange();
    this.#changeBytes = 0;
    return { ...open, number: line.number };
  }
}

function emptyChange(): {
  readonly services: Map<string, ServiceView | undefined>;
  readonly buckets: number[];
  readonly groups: GroupLine[];
  kept?: Set<string>;
  policy?: PolicyView;
} {
  return { services: new Map(), buckets: [], groups: [] };
}

function tooLarge(bytes: number): CodedError {
  return decode.failure("change", `at most ${bytes} bytes`, "");
}
