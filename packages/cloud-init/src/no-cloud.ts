import { readFileSync } from "node:fs";
import path from "node:path";
import { decode, isSystemError } from "@kip/base";
import { CloudInitError } from "./errors.ts";

/** What the NoCloud data source offers. */
export interface NoCloudSeed {
  /** As found; for {@link parseUserData}. Empty when there is none. */
  readonly userData: Uint8Array;
  /** Names this instance; user data is applied once per value and boot. */
  readonly instanceId: string;
  /** Host name that the platform gave. */
  readonly localHostname?: string | undefined;
}

const decodeMetaData = decode.object({
  "instance-id": decode.string,
  "local-hostname": decode.optional(decode.string),
});

/**
 * Reads a mounted NoCloud seed: the files `meta-data` (one JSON object) and `user-data`.
 *
 * @throws {CloudInitError} `SEED_INVALID`
 * @see https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html
 */
export function readNoCloudSeed(directory: string): NoCloudSeed {
  const metaData = readMetaData(read("meta-data"));
  const userData = read("user-data");
  const localHostname = metaData["local-hostname"];
  return {
    userData,
    instanceId: metaData["instance-id"],
    localHostname,
  };

  function read(name: string): Buffer {
    try {
      return readFileSync(path.join(directory, name));
    } catch (cause) {
      if (name === "user-data" && isSystemError(cause, "ENOENT")) return Buffer.alloc(0);
      throw invalid(`the file "${name}" cannot be read`, cause);
    }
  }
}

function readMetaData(data: Buffer): ReturnType<typeof decodeMetaData> {
  try {
    return decodeMetaData(JSON.parse(data.toString("utf8")), "meta-data");
  } catch (cause) {
    throw invalid("meta-data is not a JSON object with an instance-id", cause);
  }
}

function invalid(reason: string, cause: unknown): CloudInitError {
  return new CloudInitError("SEED_INVALID", `Cannot read the seed: ${reason}`, { cause });
}
