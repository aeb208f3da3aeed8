import type { ConfigMap, Secret } from "@kip/k8s-types";
import { VirtualKubeletError } from "../errors.ts";

/** Kinds of objects that pods take content from. */
export type ReferenceKind = "ConfigMap" | "Secret";

/** An object in the pod's namespace that the pod refers to. */
export interface Reference {
  readonly kind: ReferenceKind;
  readonly name: string;
}

/** A reference as pods write it. An empty name, which Kubernetes allows for old objects, finds nothing. */
export function reference(
  kind: ReferenceKind,
  { name = "" }: { readonly name?: string },
): Reference {
  return { kind, name };
}

/** Content of a ConfigMap or Secret: each key's bytes. */
export interface ReferencedContent {
  /** Keys that are text (`data`): what environment variables can take. */
  readonly text: ReadonlyMap<string, string>;
  /** All keys, with `binaryData` of ConfigMaps: what volumes show. */
  readonly bytes: ReadonlyMap<string, Uint8Array>;
  /** `type` of a Secret. */
  readonly type?: string | undefined;
}

/** Reads the objects that one pod refers to, and remembers what it read. */
export interface ReferenceReader {
  /** The content; undefined if there is no such object. Other failures are thrown. */
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
 * A pod's content cannot be resolved now. The pod waits: the object may appear, or the API come back.
 *
 * @param container whose environment it is; absent for volumes
 */
export function unresolved(
  message: string,
  container?: string,
  cause?: unknown,
): VirtualKubeletError {
  return new VirtualKubeletError("VK_UNRESOLVED", message, { retryable: true, container, cause });
}

/** As {@link unresolved}, where it is certain that there is no such object or key. */
export function absent(message: string, container?: string): VirtualKubeletError {
  const options = { retryable: true, container, isAbsent: true };
  return new VirtualKubeletError("VK_UNRESOLVED", message, options);
}

/** Whether an error is of {@link absent}. */
export function isAbsent(error: unknown): boolean {
  return VirtualKubeletError.is(error, "VK_UNRESOLVED") && error.isAbsent;
}

/** A reference in messages: `configmap "name"`. */
export function nameOf({ kind, name }: Reference): string {
  return `${kind.toLowerCase()} "${name}"`;
}

/** Content of a ConfigMap as the API has it. */
export function configMapContent({ data = {}, binaryData = {} }: ConfigMap): ReferencedContent {
  const text = new Map(Object.entries(data));
  const bytes = new Map<string, Uint8Array>();
  for (const [key, value] of text) bytes.set(key, copyBytes(value));
  for (const [key, value] of Object.entries(binaryData)) bytes.set(key, copyBytes(value, "base64"));
  return { text, bytes };
}

/** Content of a Secret as the API has it. */
export function secretContent({ data = {}, type }: Secret): ReferencedContent {
  const bytes = new Map(
    Object.entries(data).map(([key, value]) => [key, copyBytes(value, "base64")]),
  );
  const text = new Map([...bytes].map(([key, value]) => [key, value.toString("utf8")]));
  return { text, bytes, type };
}

/**
 * Bytes of a text in memory of their own. `Buffer.from` cuts small buffers out of blocks of 8 KiB, and one small buffer keeps
 * the whole block; pods keep their content for life.
 */
export function copyBytes(text: string, encoding: "utf8" | "base64" = "utf8"): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding));
  return bytes.subarray(0, bytes.write(text, encoding));
}
