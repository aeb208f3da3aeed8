import { nearest } from "@kip/base";
import type { LaunchExtra, LaunchType } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import { ProviderError } from "../errors.ts";
import type { Annotation } from "./annotation.ts";
import { annotationPrefix, podAnnotations } from "./pod-annotations.ts";

/** A pod's requirements for its cell, from its annotations. Undefined fields are not requested. */
export interface CellConstraints {
  /** The name of an instance type, or a pattern. */
  readonly instanceType: string | undefined;
  /** At least one. The first one for which there is a machine is used. */
  readonly launchTypes: readonly LaunchType[];
  /** US dollars. */
  readonly maxPricePerHour: number | undefined;
  readonly architecture: "amd64" | "arm64" | undefined;
  readonly zone: string | undefined;
  /** A name from `cells.bootImages`. */
  readonly bootImage: string | undefined;
  readonly privateIpOnly: boolean;
  readonly rootDiskBytes: number | undefined;
  /** Name or ARN. */
  readonly instanceProfile: string | undefined;
  /** IDs. */
  readonly securityGroups: readonly string[] | undefined;
  /** Address ranges that are routed to the cell. */
  readonly routes: readonly string[] | undefined;
}

/** Maximum number of problems in a message. A pod may have annotations of 256 KiB. */
const maxProblems = 5;
/** Maximum length of a value in a message, characters. */
const maxShown = 64;
/** A misspelt annotation has to go: the right one beside it does not help. */
const remedy =
  "Correct values with kubectl annotate --overwrite pod NAME ANNOTATION=VALUE, and remove misspelt annotations with kubectl annotate pod NAME ANNOTATION-; the pod starts then";

/**
 * Reads the pod's annotations.
 *
 * @throws {ProviderError} `ANNOTATION_INVALID` that names all annotations with this prefix that are misspelt or have an invalid
 * value. It becomes a condition and an event of the pod
 */
export function cellConstraints({ metadata }: Pod): CellConstraints {
  const problems = annotationProblems(metadata.annotations ?? {});
  if (problems.length > 0) {
    const more = problems.length > maxProblems ? `, and ${problems.length - maxProblems} more` : "";
    throw new ProviderError(
      "ANNOTATION_INVALID",
      `Cannot use annotations of this pod: ${problems.slice(0, maxProblems).join("; ")}${more}`,
      { remedy },
    );
  }
  const read = reader(metadata.annotations ?? {});
  return {
    instanceType: read("instance-type", podAnnotations["instance-type"]),
    launchTypes: launchTypesOf({ metadata }),
    maxPricePerHour: read("max-price-per-hour", podAnnotations["max-price-per-hour"]),
    architecture: read("architecture", podAnnotations.architecture),
    zone: read("zone", podAnnotations.zone),
    bootImage: read("boot-image", podAnnotations["boot-image"]),
    privateIpOnly: read("private-ip-only", podAnnotations["private-ip-only"]) ?? false,
    rootDiskBytes: read("volume-size", podAnnotations["volume-size"]),
    instanceProfile: read("instance-profile", podAnnotations["instance-profile"]),
    securityGroups: read("security-groups", podAnnotations["security-groups"]),
    routes: read("cloud-route", podAnnotations["cloud-route"]),
  };
}

/** The launch types for the pod's machine, the preferred one first. Also works for pods with other, invalid annotations. */
export function launchTypesOf({ metadata }: Pick<Pod, "metadata">): readonly LaunchType[] {
  const read = reader(metadata.annotations ?? {});
  if (isMac(read("instance-type", podAnnotations["instance-type"]))) return ["dedicated"];
  return read("launch-type", podAnnotations["launch-type"]) ?? ["on-demand"];
}

/** AWS only offers these on dedicated hosts. */
function isMac(instanceType: string | undefined): boolean {
  return instanceType !== undefined && /^mac\d/.test(instanceType);
}

/**
 * How long the pod's cell may be unreachable, milliseconds, possibly infinite. Undefined for the default. An invalid value that
 * is set while the pod is running is ignored.
 */
export function unreachableLimitOf({ metadata }: Pod): number | undefined {
  const name = "healthcheck-healthy-timeout";
  const seconds = reader(metadata.annotations ?? {})(name, podAnnotations[name]);
  if (seconds === undefined) return undefined;
  return seconds > 0 ? seconds * 1000 : Infinity;
}

const missingExtras: Readonly<Record<LaunchExtra, string>> = {
  instanceProfile: "this cloud has no instance profiles",
  securityGroups: "this cloud has no security groups; NetworkPolicies say who reaches a pod",
  routes: "no routes lead to pods here; on AWS, cloud.aws.podRoutes allows them",
};

/** A sentence for each valid annotation that has no effect on a cloud with these extras. */
export function annotationsWithoutEffect(
  { metadata }: Pod,
  extras: readonly LaunchExtra[] = [],
): readonly string[] {
  const given = metadata.annotations ?? {};
  return Object.entries<Annotation<unknown>>(podAnnotations).flatMap(
    ([name, { withoutEffect, needs }]) => {
      if (given[annotationPrefix + name] === undefined) return [];
      const isMissing = needs !== undefined && !extras.includes(needs);
      const why = isMissing ? missingExtras[needs] : withoutEffect;
      return why === undefined ? [] : [`${annotationPrefix}${name} has no effect: ${why}`];
    },
  );
}

type Annotations = Readonly<Record<string, string>>;

function reader(given: Annotations) {
  return <T>(name: string, { read }: Annotation<T>): T | undefined => {
    const text = given[annotationPrefix + name];
    return text === undefined ? undefined : read(text);
  };
}

/** The problems of annotations with this prefix, and of those that look like it. */
function annotationProblems(given: Annotations): readonly string[] {
  const known: Readonly<Record<string, Annotation<unknown>>> = podAnnotations;
  return Object.entries(given).flatMap(([key, text]) => {
    const [prefix = "", name = ""] = key.split("/");
    if (`${prefix}/` !== annotationPrefix)
      return isProbablyMisspelt(prefix, name) ? [unknownName(key, name)] : [];
    const found = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!found) return [unknownName(key, nearest(name, Object.keys(known)))];
    if (found.read(text) !== undefined) return [];
    return [`${key}: "${shown(text)}" is not ${found.expected.replaceAll("`", "")}`];
  });
}

/** Whether another prefix is probably misspelt: `pods.elotl.co/instance-type`. */
function isProbablyMisspelt(prefix: string, name: string): boolean {
  return prefix.includes("elotl") && Object.hasOwn(podAnnotations, name);
}

function unknownName(key: string, near: string | undefined): string {
  const hint = near === undefined ? "" : ` (did you mean ${annotationPrefix}${near}?)`;
  return `${shown(key)}: there is no such annotation${hint}`;
}

function shown(text: string): string {
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
}
