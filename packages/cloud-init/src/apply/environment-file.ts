import { readFileSync } from "node:fs";
import path from "node:path";
import { isSystemError } from "@kip/base";
import type { InstanceAddresses } from "../instance-data.ts";
import { writeWholeFile } from "./write-whole-file.ts";

const file = "/etc/environment";

/** The original's names. */
const names = {
  MILPA_PUBLIC_IPV4: "publicIpv4",
  MILPA_PRIVATE_IPV4: "privateIpv4",
  MILPA_PUBLIC_IPV6: "publicIpv6",
  MILPA_PRIVATE_IPV6: "privateIpv6",
} as const satisfies Record<string, keyof InstanceAddresses>;

/** Writes the addresses to `/etc/environment`, and keeps its other lines. @throws errors of the file system */
export function writeEnvironment(addresses: InstanceAddresses, root: string): void {
  const others = readLines(path.join(root, file)).filter(
    (line) => line !== "" && !Object.keys(names).some((name) => line.startsWith(`${name}=`)),
  );
  const lines = Object.entries(names).flatMap(([name, key]) => {
    const address = addresses[key];
    return address === undefined ? [] : [`${name}=${address}`];
  });
  const content = Buffer.from([...others, ...lines].map((line) => `${line}\n`).join(""));
  writeWholeFile({ path: file, content, mode: 0o644 }, root);
}

function readLines(place: string): readonly string[] {
  try {
    return readFileSync(place, "utf8").split("\n");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return [];
    throw error;
  }
}
