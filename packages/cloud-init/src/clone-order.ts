import { isUtf8 } from "node:buffer";
import { decode } from "@kip/base";
import { CloudInitError } from "./errors.ts";

const network = decode.object({
  mac: decode.string,
  /** CIDR. */
  address: decode.string,
  gateway: decode.string,
  nameservers: decode.list(decode.string),
});

/**
 * Turns a clone of a template into its own machine: everything that two clones must not share. The launcher writes it as one
 * line of JSON to the port {@link clonePort}.
 */
const decodeIdentity = decode.object({
  /** 1. */
  version: decode.integer,
  instanceId: decode.string,
  hostname: decode.string,
  /** 32 hexadecimal digits, for /etc/machine-id. */
  machineId: decode.string,
  /** The launcher's wall clock when it wrote this, milliseconds since the Unix epoch. */
  unixMs: decode.integer,
  /** Base64 of at least 32 bytes that no other machine gets. */
  entropy: decode.string,
  network,
  /** User data for cloud-init: text or base64. */
  userData: decode.string,
  /** Older cell images do not know this field, and only accept text. @default text */
  userDataEncoding: decode.optional(decode.oneOf("base64")),
});

/** @see decodeIdentity */
export type CloneIdentity = decode.Decoded<typeof decodeIdentity>;

/**
 * Makes a clone of a template fetch images and wait again, as a template with these images. Its network is removed afterwards.
 */
const decodePreload = decode.object({
  /** 1. */
  version: decode.integer,
  /** Names with a digest, `registry/repository@sha256:…`. */
  images: decode.list(decode.string),
  /** Pull settings from the launch request: `LaunchImages.pull` of `@kip/cloud`. */
  pull: decode.string,
  unixMs: decode.integer,
  /** As in an identity. */
  entropy: decode.string,
  network,
});

/** @see decodePreload */
export type ImagePreload = decode.Decoded<typeof decodePreload>;

/** A message from the launcher on the port. */
export type Order =
  | { readonly kind: "become"; readonly identity: CloneIdentity }
  | { readonly kind: "fetch"; readonly preload: ImagePreload };

/** User data in the form of an identity. */
export function userDataFields(
  data: Uint8Array,
): Pick<CloneIdentity, "userData" | "userDataEncoding"> {
  const bytes = Buffer.from(data);
  if (isUtf8(bytes)) return { userData: bytes.toString() };
  return { userData: bytes.toString("base64"), userDataEncoding: "base64" };
}

/** Decodes the user data that {@link userDataFields} encoded. */
export function userDataOf({
  userData,
  userDataEncoding,
}: Pick<CloneIdentity, "userData" | "userDataEncoding">): Buffer {
  return Buffer.from(userData, userDataEncoding ?? "utf8");
}

/** Name of the virtio-serial port, in /sys/class/virtio-ports/<port>/name. */
export const clonePort = "co.elotl.kip.personality";

/** Kernel command line argument that makes the machine a template. */
export const templateArgument = "kip.template";

/**
 * Messages from the machine on the port, one per line.
 *
 * - `template`: everything is loaded or fetched, and the machine is waiting. The launcher may save it now
 * - `ready`: a clone has its identity, and its agent is listening
 */
export const cloneMessages = { template: "template", ready: "ready" } as const;

/** Maximum length of a line, bytes. */
export const maxCloneOrderBytes = 65_536;

/** The line for the port, including its line break. */
export function orderLine(order: CloneIdentity | ImagePreload): string {
  return `${JSON.stringify(order)}\n`;
}

/**
 * Parses a line from the port.
 *
 * @throws {CloudInitError} `PERSONALITY_INVALID`
 */
export function parseOrder(line: string): Order {
  try {
    const document: unknown = JSON.parse(line);
    const isPreload = typeof document === "object" && document !== null && "images" in document;
    if (isPreload) {
      const preload = decodePreload(document, "preload");
      check(preload);
      return { kind: "fetch", preload };
    }
    const identity = decodeIdentity(document, "identity");
    check(identity);
    if (!/^[\da-f]{32}$/.test(identity.machineId))
      throw new RangeError("machineId is not 32 hexadecimal digits");
    return { kind: "become", identity };
  } catch (cause) {
    throw new CloudInitError(
      "PERSONALITY_INVALID",
      `Cannot make this machine of its template: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause, remedy: "Use a launcher and a cell image of the same version" },
    );
  }
}

function check({ version, entropy }: CloneIdentity | ImagePreload): void {
  if (version !== 1) throw new RangeError(`version ${version} is not 1`);
  if (Buffer.from(entropy, "base64").length < 32)
    throw new RangeError("entropy has less than 32 bytes");
}
