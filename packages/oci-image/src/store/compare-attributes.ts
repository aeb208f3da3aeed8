import { spawnSync } from "node:child_process";
import { ImageError } from "../errors.ts";
import { compareAttributesScript } from "../gen/scripts.gen.ts";
import { closeFolder, openFolder } from "../unpack/descriptor-path.ts";

/** System call numbers of llistxattr and lgetxattr. */
const calls: Readonly<Record<string, readonly [number, number]>> = {
  x64: [195, 192],
  arm64: [12, 9],
};

/**
 * Finds the first entry whose extended attributes (file capabilities, access lists, `user.*`, `trusted.*`) differ between two
 * trees with the same names. Undefined if there is none. Needs perl, because Node has no call for it. Without perl, trees are
 * unpacked without attributes, and nothing is compared.
 *
 * @returns the entry's path, a byte string
 * @throws {ImageError} `IMAGE_STORE_FAILED` if the attributes cannot be read
 */
export function findAttributeDifference(one: string, other: string): string | undefined {
  const numbers = calls[process.arch];
  if (numbers === undefined) return undefined;
  const left = openFolder(one);
  try {
    const right = openFolder(other);
    try {
      return run(numbers, [left, right]);
    } finally {
      closeFolder(right);
    }
  } finally {
    closeFolder(left);
  }
}

function run(numbers: readonly number[], folders: readonly [number, number]): string | undefined {
  const child = spawnSync(
    "/usr/bin/perl",
    ["-e", compareAttributesScript, ...numbers.map(String)],
    {
      stdio: ["ignore", "pipe", "pipe", ...folders],
      env: {},
    },
  );
  if (child.error && "code" in child.error && child.error.code === "ENOENT") return undefined;
  if (child.status === 0) {
    const path = child.stdout.toString("latin1");
    return path === "" ? undefined : path;
  }
  const reason = child.error?.message ?? child.stderr.toString("latin1").trim();
  throw new ImageError("IMAGE_STORE_FAILED", `extended attributes cannot be compared: ${reason}`, {
    cause: child.error,
    remedy: "See that the store's disk is mounted, readable and sound",
  });
}
