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
 * Makes a copy of a template a machine of its own: everything that two copies must not share. The launcher writes it as one
 * line of JSON to the port {@link clonePort}.
 */
const decodeIdentity = decode.object({
  /** 1. */
  version: decode.integer,
  instanceId: decode.string,
  hostname: decode.string,
  /** 32 hexadecimal digits, for /etc/machine-id. */
  machineId: decode.string,
  /** The launcher's wall clock when it wrote this, milliseconds since the epoch. */
  unixMs: decode.integer,
  /** Base64; at least 32 bytes that no other machine gets. */
  entropy: decode.string,
  network,
  /** As cloud-init takes it: text, or base64. */
  userData: decode.string,
  /** Cell images from before this field have user data in text only. @default text */
  userDataEncoding: decode.optional(decode.oneOf("base64")),
});

/** @see decodeIdentity */
export type CloneIdentity = decode.Decoded<typeof decodeIdentity>;

/**
 * Asks a copy of a template to fetch images and to wait again, as a template that has them. Its network is removed
 * afterwards.
 */
const decodePreload = decode.object({
  /** 1. */
  version: decode.integer,
  /** Names with a digest, `registry/repository@sha256:…`. */
  images: decode.list(decode.string),
  /** How to get them, as the launch request had it: `LaunchImages.pull` of `@kip/cloud`. */
  pull: decode.string,
  unixMs: decode.integer,
  /** As an identity's. */
  entropy: decode.string,
  network,
});

/** @see decodePreload */
export type ImagePreload = decode.Decoded<typeof decodePreload>;

/** What a launcher writes to the port. */
export type Order =
  | { readonly kind: "become"; readonly identity: CloneIdentity }
  | { readonly kind: "fetch"; readonly preload: ImagePreload };

/** User data as an identity has it. */
export function userDataFields(
  data: Uint8Array,
): Pick<CloneIdentity, "userData" | "userDataEncoding"> {
  const bytes = Buffer.from(data);
  if (isUtf8(bytes)) return { userData: bytes.toString() };
  return { userData: bytes.toString("base64"), userDataEncoding: "base64" };
}

/** The user data that {@link userDataFields} has written. */
export function userDataOf({
  userData,
  userDataEncoding,
}: Pick<CloneIdentity, "userData" | "userDataEncoding">): Buffer {
  return Buffer.from(userData, userDataEncoding ?? "utf8");
}

/** Name of the virtio-serial port, as it stands in /sys/class/virtio-ports/<port>/name. */
export const clonePort = "co.elotl.kip.personality";

/** Argument on the kernel's command line that makes the machine a template. */
export const templateArgument = "kip.template";

/**
 * The messages of the machine on the port, a line each.
 *
 * - `template`: everything is loaded, or fetched, and the machine waits; the launcher may save it now
 * - `ready`: a copy has its identity and its agent listens
 */
export const cloneMessages = { template: "template", ready: "ready" } as const;

/** Longest line, bytes. */
export const maxCloneOrderBytes = 65_536;

/** The line for the port, its end included. */
export function orderLine(order: CloneIdentity | ImagePreload): string {
  return `${JSON.stringify(order)}\n`;
}

/**
 * Reads the line.
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
