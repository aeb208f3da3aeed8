import { defined } from "@kip/base";
import type { ContainerStatus, PodStatus } from "@kip/k8s-types";
import { isFinished } from "./pod-facts.ts";
import type { StatusPatch } from "./status-patch.ts";
import { refusedFields } from "./status-refusal.ts";

/** How much of a status is written. */
type Extent = "undisputed" | "essential" | "minimal" | "nothing";

/** The next smaller extent. */
const nextExtent: Readonly<Record<Extent, Extent | undefined>> = {
  undisputed: "essential",
  essential: "minimal",
  minimal: "nothing",
  nothing: undefined,
};

const keptFields: Readonly<Record<Extent, ReadonlySet<string> | undefined>> = {
  undisputed: undefined, // everything except the named fields
  essential: new Set(["phase", "reason", "message", "conditions", "podIP", "podIPs"]),
  minimal: new Set(["phase", "reason", "message"]),
  nothing: new Set(),
};

/** Length to which a message is truncated if a status may be too large, characters. */
const minimalMessageLength = 1024;

const containerLists: ReadonlySet<string> = new Set([
  "initContainerStatuses",
  "containerStatuses",
  "ephemeralContainerStatuses",
]);

/**
 * Leaves out fields of a pod's status that the API server refuses: first those named in the refusal, then all except the
 * essential ones, then all except phase, reason and message. In a status with a terminal phase, container statuses are first
 * reduced to how containers ended, because Jobs use the exit codes.
 */
export class StatusReduction {
  readonly #omitted = new Set<string>();
  /** Container lists that are reduced to the ends of containers. */
  readonly #shortened = new Set<string>();
  #extent: Extent = "undisputed";

  /** Whether all fields are written. */
  get isWhole(): boolean {
    return this.#extent === "undisputed" && this.#omitted.size + this.#shortened.size === 0;
  }

  /** Whether no field is written. */
  get isNothing(): boolean {
    return this.#extent === "nothing";
  }

  /**
   * Leaves out more fields.
   *
   * @returns false if there are no more fields to leave out
   */
  reduce(error: unknown, wanted: PodStatus): boolean {
    const isEnd = isFinished({ status: wanted });
    if (this.#extent === "undisputed") {
      if (this.#omitNamed(error, isEnd)) return true;
      if (isEnd) for (const field of containerLists) this.#shortened.add(field);
    }
    const next = nextExtent[this.#extent];
    if (next === undefined || (next === "nothing" && isEnd)) return false;
    this.#extent = next;
    return true;
  }

  /** Writes all fields again. */
  reset(): void {
    this.#omitted.clear();
    this.#shortened.clear();
    this.#extent = "undisputed";
  }

  /** The patch without the fields that are left out. Undefined if it is then empty. */
  of(patch: StatusPatch | undefined): StatusPatch | undefined {
    if (!patch || this.isWhole) return patch;
    const status = Object.fromEntries(
      Object.entries(patch.status ?? {}).flatMap(([field, value]) => {
        const kept = this.#kept(field, value);
        return kept === undefined ? [] : [[field, kept] as const];
      }),
    );
    const { annotations, ...identity } = patch.metadata;
    const isAnnotated =
      annotations && this.#extent === "undisputed" && !this.#omitted.has("annotations");
    if (Object.keys(status).length === 0 && !isAnnotated) return undefined;
    return { metadata: isAnnotated ? patch.metadata : identity, status };
  }

  #kept(field: string, value: unknown): unknown {
    if (this.#omitted.has(field)) return undefined;
    const isShortened = this.#shortened.has(field) && this.#extent !== "minimal";
    const fields = keptFields[this.#extent];
    if (fields && !fields.has(field) && !isShortened) return undefined;
    if (field === "message" && this.#extent === "minimal" && typeof value === "string")
      return value.slice(0, minimalMessageLength);
    if (!isShortened || !Array.isArray(value)) return value;
    const ends = (value as readonly ContainerStatus[]).flatMap(endOf); // implied by the field's name
    return ends.length > 0 ? ends : undefined;
  }

  /** Whether the refusal names a field that was still written. */
  #omitNamed(error: unknown, isEnd: boolean): boolean {
    const named = refusedFields(error).filter(
      (field) => field !== "phase" && !this.#omitted.has(field),
    );
    for (const field of named) {
      if (isEnd && containerLists.has(field) && !this.#shortened.has(field))
        this.#shortened.add(field);
      else this.#omitted.add(field);
    }
    return named.length > 0;
  }
}

function endOf({ name, image, imageID, restartCount, state }: ContainerStatus): ContainerStatus[] {
  const end = state?.terminated;
  if (!end) return [];
  const { exitCode, reason, startedAt, finishedAt } = end;
  const terminated = defined({ exitCode, reason, startedAt, finishedAt });
  return [{ name, image, imageID, restartCount, ready: false, state: { terminated } }];
}
