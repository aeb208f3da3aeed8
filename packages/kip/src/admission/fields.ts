import type { Pod } from "@kip/k8s-types";
import { podFields } from "../pod-fields/pod-fields.ts";
import { tooMany, unsupported, type FieldDecision } from "../pod-fields/field-decision.ts";
import { otherVolume } from "../pod-fields/volume-fields.ts";
import type { Rejection } from "./rejection.ts";

/** Refuses a pod with a field, or a value, that cells do not support. The message begins with the field's path. */
export function rejectUnsupported(pod: Pod): Rejection | undefined {
  const problem = firstProblem(pod.spec, { type: "PodSpec", path: "spec", pod });
  return problem === undefined ? undefined : { reason: unsupported, message: problem };
}

interface Place {
  /** Type of the value, or of its elements. */
  readonly type: string;
  /** Path of the value, as in `spec.containers[0]`. */
  readonly path: string;
  readonly pod: Pod;
}

function firstProblem(value: unknown, { type, path, pod }: Place): string | undefined {
  if (Array.isArray(value)) {
    for (const [index, element] of value.entries()) {
      const problem = firstProblem(element, { type, path: `${path}[${index}]`, pod });
      if (problem !== undefined) return problem;
    }
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  for (const [field, decision] of decisions(type, value)) {
    const own = value[field];
    const place = `${path}.${field}`;
    if (isUnset(own)) continue;
    if (decision.kind === "refused" && decision.isRefused?.(own, pod) === true)
      return `${place}: Forbidden: ${decision.words}`;
    if (decision.kind !== "works") continue;
    if (decision.most !== undefined && Array.isArray(own) && own.length > decision.most)
      return `${place}: Forbidden: ${tooMany(decision.most)}`;
    if (decision.of === undefined) continue;
    const problem = firstProblem(own, { type: decision.of, path: place, pod });
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/**
 * The decisions for the fields of a type. Unknown fields of a volume are volume types of a later Kubernetes. Without a
 * decision, such a volume would become an empty directory.
 */
function decisions(
  type: string,
  value: Readonly<Record<string, unknown>>,
): readonly (readonly [field: string, FieldDecision])[] {
  const known = podFields[type] ?? {};
  const later =
    type === "Volume" ? Object.keys(value).filter((field) => !Object.hasOwn(known, field)) : [];
  return [
    ...Object.entries(known),
    ...later.map((field): readonly [string, FieldDecision] => [field, otherVolume]),
  ];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** An empty list or text counts as unset. */
function isUnset(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === "" ||
    (Array.isArray(value) && value.length === 0)
  );
}
