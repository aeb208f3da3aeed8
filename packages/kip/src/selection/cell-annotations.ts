import { bytes } from "@kip/base";
import { ProviderError } from "../errors.ts";

/** Annotations of a pod that choose its cell, as in the original Kip. */
export const cellAnnotations = {
  instanceType: "pod.elotl.co/instance-type",
  launchType: "pod.elotl.co/launch-type",
  privateIpOnly: "pod.elotl.co/private-ip-only",
  volumeSize: "pod.elotl.co/volume-size",
} as const;

/** Bytes of the root disk; undefined without the annotation. @throws {ProviderError} `ANNOTATION_INVALID` */
export function readVolumeSize(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const size = bytes(text);
  if (size > 0 && Number.isSafeInteger(size)) return size;
  throw invalidAnnotation(
    cellAnnotations.volumeSize,
    `"${shown(text)}" is not the size of a disk`,
    { remedy: "Write for example 20Gi" },
  );
}

/** How much of an annotation is in a message, characters; it may have 256 KiB. */
const maxShown = 64;

/** The beginning of an annotation. */
export function shown(text = ""): string {
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
}

/** The error that says why an annotation cannot be used. */
export function invalidAnnotation(
  annotation: string,
  reason: string,
  options: { readonly remedy: string },
): ProviderError {
  return new ProviderError(
    "ANNOTATION_INVALID",
    `Cannot read annotation "${annotation}": ${reason}`,
    options,
  );
}
