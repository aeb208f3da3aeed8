import fs from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import type { DesiredPod } from "@kip/agent-api";
import { isSystemError, makeFolderSync } from "@kip/base";

const { O_CREAT, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = fs.constants;
const maxHostsBytes = 1024 * 1024;

/** Files that the node provides to the pod, by their path in each container. */
export type PodFiles = ReadonlyMap<string, string>;

/**
 * Writes the pod's `/etc/hosts`, `/etc/hostname` and `/etc/resolv.conf`. With host networking, the pod has the cell's name.
 * Writes in place, because a container's mount stays with its original file. Synchronous, because they are small, and the
 * thread pool would take longer than the writing.
 */
export function writePodFiles(
  directory: string,
  pod: DesiredPod,
  /** The cell's own hosts file. */
  cellHosts = "/etc/hosts",
): PodFiles {
  makeFolderSync(directory, 0o755, { recursive: true });
  const contents: readonly (readonly [string, string])[] = [
    ["/etc/hosts", pod.hostNetwork ? withOwnHosts(pod.etcHosts, cellHosts) : pod.etcHosts],
    ["/etc/hostname", `${pod.hostNetwork ? hostname() : pod.hostname}\n`],
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

/** Inserts the cell's hosts file after the first line, like the kubelet gives a pod the node's. */
function withOwnHosts(etcHosts: string, cellHosts: string): string {
  const end = etcHosts.indexOf("\n") + 1;
  return `${etcHosts.slice(0, end)}${readOwnHosts(cellHosts)}${etcHosts.slice(end)}`;
}

function readOwnHosts(file: string): string {
  const stat = fs.statSync(file, { throwIfNoEntry: false });
  // A pod that can reach it through a hostPath may have written to it.
  const isUsable = stat?.isFile() === true && stat.size <= maxHostsBytes;
  const fd = isUsable ? openAtOnce(file, O_RDONLY) : undefined;
  if (fd === undefined) return "127.0.0.1\tlocalhost\n::1\tlocalhost\n";
  const text = useFile(fd, () => fs.readFileSync(fd, "utf8"));
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

/**
 * An existing file keeps its mode, which a container may have changed. If a container keeps the file from being opened, a new
 * file replaces it. Running containers then keep the old one, which they caused themselves, and later ones get the new one.
 */
function write(file: string, content: string): void {
  const mode = fs.statSync(file, { throwIfNoEntry: false })?.mode ?? 0o644;
  const fd = openAtOnce(file, O_WRONLY | O_CREAT | O_TRUNC);
  const next = `${file}.new`;
  if (fd === undefined) fs.writeFileSync(next, content);
  else useFile(fd, () => fs.writeFileSync(fd, content));
  // Independent of the umask, because processes of all users read it.
  fs.chmodSync(fd === undefined ? next : file, mode & 0o7777);
  if (fd === undefined) fs.renameSync(next, file);
}

/** A container may have written to the file, or be writing to it. So no more is read than it should contain. */
function isSame(file: string, content: string): boolean {
  const wanted = Buffer.from(content);
  if (fs.statSync(file, { throwIfNoEntry: false })?.size !== wanted.length) return false;
  const fd = openAtOnce(file, O_RDONLY);
  if (fd === undefined) return false;
  return useFile(fd, () => {
    const found = Buffer.alloc(wanted.length);
    return fs.readSync(fd, found, 0, found.length, 0) === found.length && found.equals(wanted);
  });
}

/**
 * A container with a lease on the file (`F_SETLEASE`) would block the agent for 45 s.
 *
 * @returns undefined in that case
 */
function openAtOnce(file: string, flags: number): number | undefined {
  try {
    return fs.openSync(file, flags | O_NONBLOCK);
  } catch (error) {
    if (isSystemError(error, "EAGAIN")) return undefined;
    throw error;
  }
}

function useFile<T>(fd: number, use: () => T): T {
  try {
    return use();
  } finally {
    fs.closeSync(fd);
  }
}
