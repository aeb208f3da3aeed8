import { decode, type ProcessIdentity } from "@kip/base";

const decodeIdentity = decode.object({ pid: decode.integer, startTicks: decode.string });

/** The process that a file of ours names in JSON; undefined if it names none, or was cut off by a crash. */
export function parseIdentity(text: string): ProcessIdentity | undefined {
  try {
    return decodeIdentity(JSON.parse(text), "");
  } catch {
    return undefined;
  }
}
