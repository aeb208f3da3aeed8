const phases: ReadonlySet<unknown> = new Set([
  undefined,
  "Pending",
  "Running",
  "Succeeded",
  "Failed",
  "Unknown",
]);

/** What is wrong with what a provider gives as a pod's status; undefined if it can be written. */
export function statusProblem(status: unknown): string | undefined {
  if (!isRecord(status)) return "the status is no object";
  if (!phases.has(status["phase"])) return `"${String(status["phase"])}" is no phase`;
  for (const field of ["reason", "message", "podIP", "hostIP", "startTime"]) {
    const value = status[field];
    if (value !== undefined && typeof value !== "string") return `${field} is no text`;
  }
  for (const field of [
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
  ] as const) {
    if (!isListOf(status[field], ["name"])) return `${field} is no list of containers with names`;
  }
  if (!isListOf(status["conditions"], ["type", "status"]))
    return "conditions is no list of conditions with type and status";
  return undefined;
}

function isListOf(value: unknown, texts: readonly string[]): boolean {
  if (value === undefined) return true;
  if (!Array.isArray(value)) return false;
  return value.every(
    (each) => isRecord(each) && texts.every((field) => typeof each[field] === "string"),
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
