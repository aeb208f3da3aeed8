import fs from "node:fs";
import path from "node:path";
import { AgentError, type DesiredContainer, type DesiredVolumeMount } from "@kip/agent-api";
import type { ContainerMount, UserNamespace } from "@kip/oci-runtime";
import type { PodFiles } from "../volumes/pod-files.ts";
import type { Mounter } from "../volumes/mounter.ts";
import { bindImagePath, bindSubPath } from "../volumes/sub-path.ts";

/** What the mounts are made from. */
export interface MountInput {
  readonly container: DesiredContainer;
  /** Place on this machine by volume name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Mounted image by volume name. @default none */
  readonly images?: ReadonlyMap<string, string>;
  /** The pod's own users. @default users are the machine's */
  readonly users?: UserNamespace | undefined;
  /** Names of the volumes whose files belong to the pod's own users already. */
  readonly shiftedVolumes: ReadonlySet<string>;
  /** Names of the volumes that are only read. */
  readonly readOnlyVolumes: ReadonlySet<string>;
  readonly podFiles: PodFiles;
  /** File on this machine that takes the termination message. */
  readonly terminationFile: string;
  /** Directory for the subPaths of this run, and for its mounts with other owners. */
  readonly subPaths: string;
  readonly mounter: Mounter;
}

/** As the API's documentation of image volumes has it: nothing on them is a program of the container. */
const imageOptions = ["noexec", "nosuid", "nodev"];

/**
 * The container's mounts: its volumes, then the files that every container of the pod has, unless a
 * volume is mounted in their place.
 *
 * @throws {AgentError} code `AGENT_PATH_UNSAFE` or `AGENT_CONTAINER_CONFIG`
 */
export async function containerMounts(input: MountInput): Promise<readonly ContainerMount[]> {
  const { container } = input;
  if (container.mounts.some(({ propagation }) => propagation !== undefined))
    await input.mounter.share();
  const mounts: ContainerMount[] = [];
  /** What belongs to users of the machine. */
  const machines = new Set<string>();
  for (const [index, mount] of container.mounts.entries()) {
    const source = await mountSource(mount, index, input);
    const destination = inContainer(mount.mountPath);
    const isImage = input.images?.has(mount.name) === true;
    const readOnly = mount.readOnly === true || isImage || input.readOnlyVolumes.has(mount.name);
    const isRecursive = readOnly && mount.recursiveReadOnly === true;
    const options = [
      ...(isImage ? imageOptions : []),
      ...(isRecursive ? ["rro"] : []),
      ...propagationOptions(mount),
    ];
    mounts.push({ source, destination, readOnly, ...(options.length > 0 && { options }) });
    if (!isImage && !input.shiftedVolumes.has(mount.name)) machines.add(source);
  }
  const taken = new Set(mounts.map((mount) => mount.destination));
  const isReadOnly = container.readOnlyRootFilesystem === true;
  const add = (source: string, destination: string, readOnly: boolean): void => {
    if (!taken.has(destination)) {
      mounts.push({ source, destination, readOnly });
      machines.add(source);
    }
  };
  // As with a kubelet, which mounts the first itself; the others are the runtime's.
  for (const [destination, source] of input.podFiles)
    add(source, destination, isReadOnly && destination !== "/etc/hosts");
  if (container.terminationMessagePath !== "") {
    fs.writeFileSync(input.terminationFile, "", { mode: 0o666 });
    // The umask does not count: a container's process of any user may leave a message.
    fs.chmodSync(input.terminationFile, 0o666);
    add(input.terminationFile, inContainer(container.terminationMessagePath), false);
  }
  return input.users ? await mapped(mounts, machines, { ...input, users: input.users }) : mounts;
}

/** The mounts, with the owners that the pod's users make of the machine's. */
async function mapped(
  mounts: readonly ContainerMount[],
  machines: ReadonlySet<string>,
  { users, subPaths, mounter }: MountInput & { readonly users: UserNamespace },
): Promise<readonly ContainerMount[]> {
  const sources = [...machines];
  const places = new Map(
    sources.map((source, index) => [source, path.join(subPaths, `mapped-${index}`)]),
  );
  fs.mkdirSync(subPaths, { recursive: true });
  for (const [source, place] of places) {
    if (fs.statSync(source).isDirectory()) fs.mkdirSync(place);
    else fs.writeFileSync(place, "");
  }
  await mounter.bindMapped(users.file, [...places]);
  return mounts.map((mount) => ({ ...mount, source: places.get(mount.source) ?? mount.source }));
}

/** As containerd mounts them; what has none of these is private. */
function propagationOptions({ propagation }: DesiredVolumeMount): readonly string[] {
  if (propagation === undefined) return [];
  return [propagation === "Bidirectional" ? "rshared" : "rslave"];
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
  const image = input.images?.get(mount.name);
  const root = image ?? input.volumes.get(mount.name);
  if (root === undefined)
    throw new AgentError("AGENT_CONTAINER_CONFIG", `no volume "${mount.name}" for a mount`);
  const { subPath = "" } = mount;
  if (subPath === "") return root;
  checkSubPath(subPath);
  const target = path.join(input.subPaths, String(index));
  const owner = input.shiftedVolumes.has(mount.name) ? input.users?.firstId : undefined;
  const options = { root, subPath, target, mounter: input.mounter, owner };
  if (image === undefined) await bindSubPath(options);
  else if (!(await bindImagePath(options)))
    throw new AgentError(
      "AGENT_VOLUME_FAILED",
      `ImageVolumeMountFailed: subPath "${subPath}" does not exist in the image of volume "${mount.name}"`,
    );
  return target;
}
