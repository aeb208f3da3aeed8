import type { ConfigMap, Secret } from "@kip/k8s-types";
import { VirtualKubeletError } from "../errors.ts";

/** Kinds of objects with content for pods. */
export type ReferenceKind = "ConfigMap" | "Secret";

/** An object in the pod's namespace to which the pod refers. */
export interface Reference {
  readonly kind: ReferenceKind;
  readonly name: string;
}

/** Creates a reference. Kubernetes allows an empty name for old objects. It refers to nothing. */
export function reference(
  kind: ReferenceKind,
  { name = "" }: { readonly name?: string },
): Reference {
  return { kind, name };
}

/** Content of a ConfigMap or Secret: the bytes of each key. */
export interface ReferencedContent {
  /** Keys with text (`data`), which environment variables can use. */
  readonly text: ReadonlyMap<string, string>;
  /** All keys, including `binaryData` of ConfigMaps, which volumes can use. */
  readonly bytes: ReadonlyMap<string, Uint8Array>;
  /** `type` of a Secret. */
  readonly type?: string | undefined;
}

/** Reads the objects of one pod and remembers what it has read. */
export interface ReferenceReader {
  /** The content. Undefined if the object does not exist. Throws other failures. */
  read(reference: Reference): Promise<ReferencedContent | undefined>;
}

/** Records an Event of the pod. */
export type Notify = (event: {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly fieldPath?: string | undefined;
}) => void;

/**
 * The error when a pod's content cannot be resolved at the moment. The pod waits, because the object may appear or the API may
 * become available.
 *
 * @param container the container with the environment; absent for volumes
 */
export function unresolved(
  message: string,
  container?: string,
  cause?: unknown,
): VirtualKubeletError {
  return new VirtualKubeletError("VK_UNRESOLVED", message, { retryable: true, container, cause });
}

/** Like {@link unresolved}, for an object or key that certainly does not exist. */
export function absent(message: string, container?: string): VirtualKubeletError {
  const options = { retryable: true, container, isAbsent: true };
  return new VirtualKubeletError("VK_UNRESOLVED", message, options);
}

/** Whether an error comes from {@link absent}. */
export function isAbsent(error: unknown): boolean {
  return VirtualKubeletError.is(error, "VK_UNRESOLVED") && error.isAbsent;
}

/** A reference in messages: `configmap "name"`. */
export function nameOf({ kind, name }: Reference): string {
  return `${kind.toLowerCase()} "${name}"`;
}

/** Content of a ConfigMap from the API. */
export function configMapContent({ data = {}, binaryData = {} }: ConfigMap): ReferencedContent {
  const text = new Map(Object.entries(data));
  const bytes = new Map<string, Uint8Array>();
  for (const [key, value] of text) bytes.set(key, copyBytes(value));
  for (const [key, value] of Object.entries(binaryData)) bytes.set(key, copyBytes(value, "base64"));
  return { text, bytes };
}

/** Content of a Secret from the API. */
export function secretContent({ data = {}, type }: Secret): ReferencedContent {
  const bytes = new Map(
    Object.entries(data).map(([key, value]) => [key, copyBytes(value, "base64")]),
  );
  const text = new Map([...bytes].map(([key, value]) => [key, value.toString("utf8")]));
  return { text, bytes, type };
}

/**
 * The bytes of a text in a separate buffer. `Buffer.from` takes small buffers from blocks of 8 KiB, and one of them keeps the
 * whole block alive. Pods keep their content for life.
 */
export function copyBytes(text: string, encoding: "utf8" | "base64" = "utf8"): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding));
  return bytes.subarray(0, bytes.write(text, encoding));
}
