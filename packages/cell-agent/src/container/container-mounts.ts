import fs from "node:fs";
import path from "node:path";
import { AgentError, type DesiredContainer } from "@kip/agent-api";
import type { ContainerMount } from "@kip/oci-runtime";
import type { PodFiles } from "../volumes/pod-files.ts";
import type { Mounter } from "../volumes/mounter.ts";
import { bindSubPath } from "../volumes/sub-path.ts";

/** What the mounts are made from. */
export interface MountInput {
  readonly container: DesiredContainer;
  /** Place on this machine by volume name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Names of the volumes that are only read. */
  readonly readOnlyVolumes: ReadonlySet<string>;
  readonly podFiles: PodFiles;
  /** File on this machine that takes the termination message. */
  readonly terminationFile: string;
  /** Directory for the subPaths of this run. */
  readonly subPaths: string;
  readonly mounter: Mounter;
}

/**
 * The container's mounts: its volumes, then the files that every container of the pod has, unless a
 * volume is mounted in their place.
 *
 * @throws {AgentError} code `AGENT_PATH_UNSAFE` or `AGENT_CONTAINER_CONFIG`
 */
export async function containerMounts(input: MountInput): Promise<readonly ContainerMount[]> {
  const { container } = input;
  const mounts: ContainerMount[] = [];
  for (const [index, mount] of container.mounts.entries()) {
    const source = await mountSource(mount, index, input);
    const destination = inContainer(mount.mountPath);
    const readOnly = mount.readOnly === true || input.readOnlyVolumes.has(mount.name);
    const isRecursive = readOnly && mount.recursiveReadOnly === true;
    mounts.push({ source, destination, readOnly, ...(isRecursive && { options: ["rro"] }) });
  }
  const taken = new Set(mounts.map((mount) => mount.destination));
  const isReadOnly = container.readOnlyRootFilesystem === true;
  const add = (source: string, destination: string, readOnly: boolean): void => {
    if (!taken.has(destination)) mounts.push({ source, destination, readOnly });
  };
  for (const [destination, source] of input.podFiles) add(source, destination, isReadOnly);
  if (container.terminationMessagePath !== "") {
    fs.writeFileSync(input.terminationFile, "", { mode: 0o666 });
    // The umask does not count: a container's process of any user may leave a message.
    fs.chmodSync(input.terminationFile, 0o666);
    add(input.terminationFile, inContainer(container.terminationMessagePath), false);
  }
  return mounts;
}

/** A path as the container has it: absolute, as kubelets make it, and written in one way only. */
function inContainer(place: string): string {
  return path.posix.resolve("/", place);
}

/** A variable of `subPathExpr` may have brought what the API server refuses. In the kubelet's words. */
function checkSubPath(subPath: string): void {
  if (subPath.startsWith("/"))
    throw new AgentError(
      "AGENT_CONTAINER_CONFIG",
      `error SubPath \`${subPath}\` must not be an absolute path`,
    );
  if (subPath.split("/").includes(".."))
    throw new AgentError(
      "AGENT_CONTAINER_CONFIG",
      `unable to provision SubPath \`${subPath}\`: must not contain '..'`,
    );
}

async function mountSource(
  mount: DesiredContainer["mounts"][number],
  index: number,
  input: MountInput,
): Promise<string> {
  const root = input.volumes.get(mount.name);
  if (root === undefined)
    throw new AgentError("AGENT_CONTAINER_CONFIG", `no volume "${mount.name}" for a mount`);
  const { subPath = "" } = mount;
  if (subPath === "") return root;
  checkSubPath(subPath);
  const target = path.join(input.subPaths, String(index));
  await bindSubPath({ root, subPath, target, mounter: input.mounter });
  return target;
}
