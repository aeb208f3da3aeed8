import type { DesiredLogs } from "@kip/agent-api";
import { bytes, decode } from "@kip/base";

const { between, integer, object, optional } = decode;

/** A cell gives a file its name while the next one is filled; smaller ones are full too soon for that. */
const minFileBytes = 64 * 1024;

/** The section `kubelet` as far as it is about logs; keys and meaning are those of a kubelet's configuration. */
export interface LogKeys {
  readonly containerLogMaxSize?: string | undefined;
  readonly containerLogMaxFiles?: number | undefined;
}

const limits = object({
  containerLogMaxSize: optional(between(integer, minFileBytes, 2 ** 40)),
  containerLogMaxFiles: optional(between(integer, 2, 1000)),
});

/**
 * How much of each container's log cells keep; undefined if the configuration does not say.
 *
 * @throws {DecodeError} `DECODE_FAILED` for fewer than 64Ki or 2 files
 */
export function logSettings({
  containerLogMaxSize: size,
  containerLogMaxFiles: files,
}: LogKeys): DesiredLogs | undefined {
  if (size === undefined && files === undefined) return undefined;
  const { containerLogMaxSize: maxFileBytes = 10 * 1024 ** 2, containerLogMaxFiles: maxFiles = 5 } =
    limits(
      {
        containerLogMaxSize: size === undefined ? undefined : bytes(size),
        containerLogMaxFiles: files,
      },
      "kubelet",
    );
  return { maxFileBytes, maxFiles };
}
