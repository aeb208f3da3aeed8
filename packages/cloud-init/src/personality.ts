import { decode, KipError } from "@kip/base";

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
  network: decode.object({
    mac: decode.string,
    /** CIDR. */
    address: decode.string,
    gateway: decode.string,
    nameservers: decode.list(decode.string),
  }),
  /** As cloud-init takes it. */
  userData: decode.string,
});

/** @see decodeDocument */
export type Personality = decode.Decoded<typeof decodeDocument>;

/** Name of the virtio-serial port, as it stands in /sys/class/virtio-ports/<port>/name. */
export const personalityPort = "co.elotl.kip.personality";

/** Word on the kernel's command line that makes the machine a template. */
export const templateWord = "kip.template";

/**
 * The words that the machine says on the port, a line each.
 *
 * - `template`: everything is loaded and the machine waits; the launcher may save it now
 * - `ready`: a copy has its personality and its agent listens
 */
export const personalityWords = { template: "template", ready: "ready" } as const;

/** Longest line, bytes. */
export const maxPersonalityBytes = 65_536;

/** The line for the port, its end included. */
export function personalityLine(personality: Personality): string {
  return `${JSON.stringify(personality)}\n`;
}

/**
 * Reads the line.
 *
 * @throws {KipError} `PERSONALITY_INVALID`
 */
export function parsePersonality(line: string): Personality {
  try {
    const personality = decodeDocument(JSON.parse(line), "personality");
    if (personality.version !== 1) throw new RangeError(`version ${personality.version} is not 1`);
    if (!/^[\da-f]{32}$/.test(personality.machineId)) throw new RangeError("machineId is no ID");
    if (Buffer.from(personality.entropy, "base64").length < 32)
      throw new RangeError("entropy has less than 32 bytes");
    return personality;
  } catch (cause) {
    throw new KipError(
      "PERSONALITY_INVALID",
      `Cannot make this machine of its template: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause, remedy: "Use a launcher and a cell image of the same version" },
    );
  }
}
