import { decode, KipError } from "@kip/base";

const network = decode.object({
  mac: decode.string,
  /** CIDR. */
  address: decode.string,
  gateway: decode.string,
  nameservers: decode.list(decode.string),
});

/**
 * What makes a machine out of a copy of a template: everything that two copies must not share. The launcher hands it over
 * as one line of JSON through the port {@link personalityPort}.
 */
const decodeDocument = decode.object({
  /** 1. */
  version: decode.integer,
  instanceId: decode.string,
  hostname: decode.string,
  /** 32 hexadecimal digits, for /etc/machine-id. */
  machineId: decode.string,
  /** The launcher's wall clock when it wrote this, milliseconds since the epoch. */
  unixMs: decode.integer,
  /** Base64; at least 32 bytes that nobody else is given. */
  entropy: decode.string,
  network,
  /** As cloud-init takes it. */
  userData: decode.string,
});

/** @see decodeDocument */
export type Personality = decode.Decoded<typeof decodeDocument>;

/**
 * Asks a copy of a template to get images and to wait again, as a template that has them. It is given a network for as
 * long as that takes, and none of it stays.
 */
const decodeErrand = decode.object({
  /** 1. */
  version: decode.integer,
  /** Names with a digest, `registry/repository@sha256:…`. */
  images: decode.list(decode.string),
  /** How to get them, as the launch request had it: `LaunchImages.pull` of `@kip/cloud`. */
  pull: decode.string,
  unixMs: decode.integer,
  /** As a personality's. */
  entropy: decode.string,
  network,
});

/** @see decodeErrand */
export type Errand = decode.Decoded<typeof decodeErrand>;

/** What a launcher says on the port. */
export type Order =
  | { readonly kind: "become"; readonly personality: Personality }
  | { readonly kind: "fetch"; readonly errand: Errand };

/** Name of the virtio-serial port, as it stands in /sys/class/virtio-ports/<port>/name. */
export const personalityPort = "co.elotl.kip.personality";

/** Word on the kernel's command line that makes the machine a template. */
export const templateWord = "kip.template";

/**
 * The words that the machine says on the port, a line each.
 *
 * - `template`: everything is loaded, or fetched, and the machine waits; the launcher may save it now
 * - `ready`: a copy has its personality and its agent listens
 */
export const personalityWords = { template: "template", ready: "ready" } as const;

/** Longest line, bytes. */
export const maxPersonalityBytes = 65_536;

/** The line for the port, its end included. */
export function orderLine(order: Personality | Errand): string {
  return `${JSON.stringify(order)}\n`;
}

/**
 * Reads the line.
 *
 * @throws {KipError} `PERSONALITY_INVALID`
 */
export function parseOrder(line: string): Order {
  try {
    const document: unknown = JSON.parse(line);
    const isErrand = typeof document === "object" && document !== null && "images" in document;
    if (isErrand) {
      const errand = decodeErrand(document, "errand");
      check(errand);
      return { kind: "fetch", errand };
    }
    const personality = decodeDocument(document, "personality");
    check(personality);
    if (!/^[\da-f]{32}$/.test(personality.machineId)) throw new RangeError("machineId is no ID");
    return { kind: "become", personality };
  } catch (cause) {
    throw new KipError(
      "PERSONALITY_INVALID",
      `Cannot make this machine of its template: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause, remedy: "Use a launcher and a cell image of the same version" },
    );
  }
}

function check({ version, entropy }: Personality | Errand): void {
  if (version !== 1) throw new RangeError(`version ${version} is not 1`);
  if (Buffer.from(entropy, "base64").length < 32)
    throw new RangeError("entropy has less than 32 bytes");
}
