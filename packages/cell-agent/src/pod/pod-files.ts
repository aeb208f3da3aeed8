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

/** A container may have written to the file: it is read only if it is no larger than what it should hold. */
function isSame(file: string, content: string): boolean {
  const size = fs.statSync(file, { throwIfNoEntry: false })?.size;
  return size === Buffer.byteLength(content) && fs.readFileSync(file, "utf8") === content;
}
