const phases: ReadonlySet<unknown> = new Set([
  undefined,
  "Pending",
  "Running",
  "Succeeded",
  "Failed",
  "Unknown",
]);

/** Why a provider's status is invalid. Undefined if it can be written. */
export function statusProblem(status: unknown): string | undefined {
  if (!isRecord(status)) return "the status is not an object";
  if (!phases.has(status["phase"])) return `"${String(status["phase"])}" is not a phase`;
  for (const field of ["reason", "message", "podIP", "hostIP", "startTime"]) {
    const value = status[field];
    if (value !== undefined && typeof value !== "string") return `${field} is not a string`;
  }
  for (const field of [
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
  ] as const) {
    if (!isListOf(status[field], ["name"]))
      return `${field} is not a list of containers with names`;
  }
  if (!isListOf(status["conditions"], ["type", "status"]))
    return "conditions is not a list of conditions with type and status";
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
