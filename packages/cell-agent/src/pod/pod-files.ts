import fs from "node:fs";
import path from "node:path";
import type { DesiredPod } from "@kip/agent-api";

/** Files the pod gets from the node, by their path in each container. */
export type PodFiles = ReadonlyMap<string, string>;

/**
 * Writes `/etc/hosts`, `/etc/hostname` and `/etc/resolv.conf` of the pod. Written in place, since a
 * container's mount stays with the file it was made from. At once: they are small, and a turn through
 * the thread pool takes longer than the writing.
 */
export function writePodFiles(directory: string, pod: DesiredPod): PodFiles {
  fs.mkdirSync(directory, { recursive: true, mode: 0o755 });
  const contents: readonly (readonly [string, string])[] = [
    ["/etc/hosts", pod.etcHosts],
    ["/etc/hostname", `${pod.hostname}\n`],
    ["/etc/resolv.conf", pod.resolvConf],
  ];
  const files = new Map<string, string>();
  for (const [target, content] of contents) {
    const file = path.join(directory, path.basename(target));
    if (!isSame(file, content)) fs.writeFileSync(file, content, { mode: 0o644 });
    files.set(target, file);
  }
  return files;
}

/** A container may have written to the file: it is read only if it is no larger than what it should hold. */
function isSame(file: string, content: string): boolean {
  const size = fs.statSync(file, { throwIfNoEntry: false })?.size;
  return size === Buffer.byteLength(content) && fs.readFileSync(file, "utf8") === content;
}
