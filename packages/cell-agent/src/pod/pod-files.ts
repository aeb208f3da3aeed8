import fs from "node:fs";
import path from "node:path";
import type { DesiredPod } from "@kip/agent-api";
import { makeFolderSync } from "@kip/base";

/** Files the pod gets from the node, by their path in each container. */
export type PodFiles = ReadonlyMap<string, string>;

/**
 * Writes `/etc/hosts`, `/etc/hostname` and `/etc/resolv.conf` of the pod. Written in place, since a
 * container's mount stays with the file it was made from. At once: they are small, and a turn through
 * the thread pool takes longer than the writing.
 */
export function writePodFiles(directory: string, pod: DesiredPod): PodFiles {
  makeFolderSync(directory, 0o755, { recursive: true });
  const contents: readonly (readonly [string, string])[] = [
    ["/etc/hosts", pod.etcHosts],
    ["/etc/hostname", `${pod.hostname}\n`],
    ["/etc/resolv.conf", pod.resolvConf],
  ];
  const files = new Map<string, string>();
  for (const [target, content] of contents) {
    const file = path.join(directory, path.basename(target));
    if (!isSame(file, content)) write(file, content);
    files.set(target, file);
  }
  return files;
}

/** What is there keeps its mode, which a container may have changed. */
function write(file: string, content: string): void {
  const isNew = !fs.existsSync(file);
  fs.writeFileSync(file, content);
  if (isNew) fs.chmodSync(file, 0o644); // whatever the umask: processes of all users read it
}

/** A container may have written to the file, and may do so now: no more of it is read than it should hold. */
function isSame(file: string, content: string): boolean {
  const wanted = Buffer.from(content);
  if (fs.statSync(file, { throwIfNoEntry: false })?.size !== wanted.length) return false;
  const fd = fs.openSync(file, "r");
  try {
    const found = Buffer.alloc(wanted.length);
    return fs.readSync(fd, found, 0, found.length, 0) === found.length && found.equals(wanted);
  } finally {
    fs.closeSync(fd);
  }
}
