import { posix } from "node:path";
import { decode, type Decoder } from "@kip/base";
import { isDigest } from "./digest.ts";
import { invalidImage } from "./errors.ts";
import { parseJson } from "./manifest.ts";
import type { Platform } from "./platform.ts";

/** The part of an image's configuration that describes how to run it. Texts are unchanged. */
export interface ImageConfig {
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** `NAME=value`. */
  readonly env: readonly string[];
  /** Absolute path. "/" if the image does not set it. */
  readonly workingDir: string;
  /** `user`, `uid`, `user:group`, …; empty means root. See `resolveUser`. */
  readonly user: string;
  /** For example `SIGQUIT` or `3`. */
  readonly stopSignal?: string | undefined;
  /**
   * Volume paths of the image: clean, absolute, without duplicates and without the root. They come from a stranger, so mounting
   * one must not follow a link in the root file system (CVE-2022-23648).
   */
  readonly volumes: readonly string[];
  /** `80/tcp`, … */
  readonly exposedPorts: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

/** An image's configuration blob. */
export interface ConfigDocument {
  readonly config: ImageConfig;
  /** Digests of the inflated layers, bottom first. */
  readonly diffIds: readonly string[];
  readonly platform: Platform;
}

/**
 * Far more than any image needs. The configuration's size limit alone would allow half a million entries. Each start of a
 * container would then block the event loop for seconds, for a process that the kernel refuses because its arguments and
 * variables are too long.
 */
const count = { max: 10_000 };
const texts = decode.optional(decode.list(decode.string, count));
const keys = decode.optional(decode.map(decode.unknownValue, count));
const maxVolumes = 1000;
const optionalText = decode.optional(decode.string);

const diffId: Decoder<string> = (value, path) => {
  const text = decode.string(value, path);
  if (!isDigest(text)) throw invalidImage(`${path} is no sha256 digest`);
  return text;
};

const document = decode.object({
  architecture: optionalText,
  os: optionalText,
  variant: optionalText,
  rootfs: decode.object({ diff_ids: decode.optional(decode.list(diffId)) }),
  config: decode.optional(
    decode.object({
      Entrypoint: texts,
      Cmd: texts,
      Env: texts,
      WorkingDir: optionalText,
      User: optionalText,
      StopSignal: optionalText,
      Volumes: keys,
      ExposedPorts: keys,
      Labels: decode.optional(decode.map(decode.string, count)),
    }),
  ),
});

/** Parses a configuration blob of OCI or Docker, which have the same form. @throws `IMAGE_INVALID` */
export function parseConfig(bytes: Uint8Array): ConfigDocument {
  const parsed = parseJson(bytes, document, "configuration");
  const run = parsed.config ?? {};
  return {
    config: {
      entrypoint: run.Entrypoint ?? [],
      cmd: run.Cmd ?? [],
      env: run.Env ?? [],
      workingDir: rooted(run.WorkingDir ?? ""),
      user: run.User ?? "",
      stopSignal: run.StopSignal === "" ? undefined : run.StopSignal,
      volumes: volumesOf(Object.keys(run.Volumes ?? {})),
      exposedPorts: Object.keys(run.ExposedPorts ?? {}),
      labels: run.Labels ?? {},
    },
    diffIds: parsed.rootfs.diff_ids ?? [],
    platform: {
      os: parsed.os ?? "linux",
      architecture: parsed.architecture ?? "",
      variant: parsed.variant,
    },
  };
}

/** Removes duplicates, because two texts may mean the same path. The root cannot be a volume. */
function volumesOf(paths: readonly string[]): readonly string[] {
  const volumes = [...new Set(paths.map(rooted))].filter((path) => path !== "/");
  // Each volume is a folder and a mount in every container.
  if (volumes.length > maxVolumes)
    throw invalidImage(`its configuration has more than ${maxVolumes} volumes`);
  return volumes;
}

/** Makes a path clean and absolute. `..` cannot lead above the root. */
function rooted(path: string): string {
  if (path.includes("\0")) throw invalidImage("a path of its configuration holds a zero byte");
  const clean = posix.normalize(`/${path}`);
  return clean.length > 1 && clean.endsWith("/") ? clean.slice(0, -1) : clean;
}
