import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";

/** The fields of a pod's status that a node writes. Other clients write the other fields. */
const ownFields = [
  "phase",
  "reason",
  "message",
  "hostIP",
  "hostIPs",
  "podIP",
  "podIPs",
  "startTime",
  "qosClass",
  "initContainerStatuses",
  "containerStatuses",
  "ephemeralContainerStatuses",
] as const satisfies readonly (keyof PodStatus)[];

/** Fields that keep their value if a later status omits them. */
const stickyFields: ReadonlySet<string> = new Set([
  "phase",
  "startTime",
  "qosClass",
  "hostIP",
  "hostIPs",
]);

/** Options of {@link statusPatch}. */
export interface StatusPatchOptions {
  /** The pod's generation that the status is about. */
  readonly observedGeneration?: number | undefined;
  /** Time for transitions of conditions without a valid time, as `metav1.Time`. */
  readonly now?: string | undefined;
  /** Annotations to set on the pod. Other annotations stay. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/** A strategic merge patch of a pod's `status` subresource. */
export interface StatusPatch {
  readonly metadata: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  /** `null` removes a field. */
  readonly status?: Readonly<Record<string, unknown>>;
}

/** Lists to which a strategic merge would append. */
const mergedLists: ReadonlySet<string> = new Set(["hostIPs", "podIPs"]);

/**
 * The strategic merge patch that changes a pod's status from the API's to the wanted one. Undefined if nothing differs.
 * Compares conditions one by one, so that other clients' conditions stay.
 *
 * The patch contains the UID and the version. So the API server refuses it for a later pod with the same name, and if the pod
 * has changed in the meantime. The kubelet only sends the UID. But a write of a killed process may arrive after those of the
 * next process, possibly on another machine.
 */
export function statusPatch(
  pod: Pod,
  wanted: PodStatus,
  { observedGeneration, now, annotations = {} }: StatusPatchOptions = {},
): StatusPatch | undefined {
  const current = pod.status ?? {};
  const changes = changedFields(current, wanted);
  const conditions = [
    ...changedConditions(current, wanted.conditions ?? [], { now, observedGeneration }),
    ...endedConditions(current.conditions ?? [], wanted.conditions),
  ];
  if (conditions.length > 0) changes["conditions"] = conditions;
  if (observedGeneration !== undefined && observedGeneration > (current.observedGeneration ?? 0))
    changes["observedGeneration"] = observedGeneration;
  const marked = Object.entries(annotations).filter(
    ([key, value]) => pod.metadata.annotations?.[key] !== value,
  );
  const isChanged = Object.keys(changes).length > 0;
  if (!isChanged && marked.length === 0) return undefined;
  const { uid, resourceVersion } = pod.metadata;
  const annotated = marked.length > 0 && { annotations: Object.fromEntries(marked) };
  const metadata = { uid, resourceVersion, ...annotated };
  return isChanged ? { metadata, status: changes } : { metadata };
}

function changedFields(current: PodStatus, given: PodStatus): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  // The API server itself makes the list from the single address.
  const ip = given.podIP ?? "";
  const wanted = ip === "" ? given : { ...given, podIPs: given.podIPs ?? [{ ip }] };
  for (const field of ownFields) {
    const next = wanted[field];
    if (isSame(current[field], next)) continue;
    // As in a kubelet, a pod keeps its first start time.
    if (field === "startTime" && !isEmpty(current[field])) continue;
    if (next === undefined || (Array.isArray(next) && next.length === 0)) {
      if (!stickyFields.has(field)) changes[field] = null;
    } else if (Array.isArray(next) && mergedLists.has(field)) {
      changes[field] = [...(next as readonly unknown[]), { $patch: "replace" }];
    } else {
      changes[field] = next;
    }
  }
  return changes;
}

/** A condition in a patch. `null` removes a text in the API, which a merge would keep. */
type ConditionPatch = Omit<PodCondition, "reason" | "message"> & {
  readonly reason?: string | null;
  readonly message?: string | null;
};

function changedConditions(
  { conditions: current = [], observedGeneration: tracked }: PodStatus,
  wanted: readonly PodCondition[],
  { now, observedGeneration }: Pick<StatusPatchOptions, "now" | "observedGeneration">,
): ConditionPatch[] {
  // The API keeps one condition of each type. Without this, the first of two would be in every later patch.
  const last = new Map(wanted.map((condition) => [condition.type, condition]));
  return [...last.values()].flatMap((given): ConditionPatch[] => {
    const known = current.find(({ type }) => type === given.type);
    const newest = Math.max(observedGeneration ?? 0, known?.observedGeneration ?? 0);
    const condition = { ...(newest > 0 && { observedGeneration: newest }), ...given };
    if (!known) return [condition];
    // A changed probe time is ignored. A transition time only counts together with its transition.
    const isChanged =
      known.status !== condition.status ||
      !isSameText(known.reason, condition.reason) ||
      !isSameText(known.message, condition.message) ||
      // An API server that does not know the field drops it, both here and in the status.
      (tracked !== undefined && known.observedGeneration !== condition.observedGeneration);
    const lastTransitionTime = transitionTime(known, condition) ?? now;
    if (!isChanged) return [];
    return [
      {
        ...condition,
        ...clearedText("reason", known, condition),
        ...clearedText("message", known, condition),
        ...(lastTransitionTime !== undefined && { lastTransitionTime }),
      },
    ];
  });
}

/** Temporary conditions that only a node writes. */
const passingTypes: ReadonlySet<string> = new Set(["PodResizePending", "PodResizeInProgress"]);

/** Removes temporary conditions that no longer apply, if the status has any conditions. */
function endedConditions(
  current: readonly PodCondition[],
  wanted: readonly PodCondition[] | undefined,
): readonly { readonly type: string; readonly $patch: "delete" }[] {
  if (!wanted) return [];
  return current
    .filter(({ type }) => passingTypes.has(type) && !wanted.some((each) => each.type === type))
    .map(({ type }) => ({ type, $patch: "delete" }));
}

/** An absent text, "" and a null in a provider's JSON are the same on the wire. */
function isSameText(a: string | null | undefined, b: string | null | undefined): boolean {
  return (a ?? "") === (b ?? "");
}

function clearedText(
  field: "reason" | "message",
  known: PodCondition,
  condition: PodCondition,
): { readonly [field]?: null } {
  const isStale = !isEmpty(known[field]) && isEmpty(condition[field]);
  return isStale ? { [field]: null } : {};
}

/**
 * When a condition got its status. Undefined if that is now. A provider computes times from the last pod that it got, which may
 * lack conditions of the API.
 */
function transitionTime(known: PodCondition, condition: PodCondition): string | undefined {
  const before = known.lastTransitionTime;
  const after = condition.lastTransitionTime;
  if (known.status === condition.status) return before ?? after;
  return after !== undefined && Date.parse(after) > Date.parse(before ?? "1970-01-01")
    ? after
    : undefined;
}

/** A fraction of a second, which the API server does not store. */
const fraction = /(?<=^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+(?=Z$)/;

/** undefined, null, "" and empty lists and objects are the same on the wire. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a === "string" && typeof b === "string" && a !== "" && b !== "")
    return a.replace(fraction, "") === b.replace(fraction, "");
  if (isEmpty(a) || isEmpty(b)) return isEmpty(a) && isEmpty(b);
  if (typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) || Array.isArray(b))
    return (
      Array.isArray(a) &&
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((each, index) => isSame(each, b[index]))
    );
  const left = a as Readonly<Record<string, unknown>>; // empty values were handled above
  const right = b as typeof left;
  return (
    Object.keys(left).every((key) => isSame(left[key], right[key])) &&
    Object.keys(right).every((key) => Object.hasOwn(left, key) || isEmpty(right[key]))
  );
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === "" || value === undefined) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === "object" && Object.values(value).every(isEmpty);
}
