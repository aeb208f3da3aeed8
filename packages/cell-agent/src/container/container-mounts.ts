import fs from "node:fs";
import path from "node:path";
import { AgentError, type DesiredContainer, type DesiredVolumeMount } from "@kip/agent-api";
import type { ContainerMount, UserNamespace } from "@kip/oci-runtime";
import type { PodFiles } from "../volumes/pod-files.ts";
import type { Mounter } from "../volumes/mounter.ts";
import { bindImagePath, bindSubPath } from "../volumes/sub-path.ts";

/** Inputs for a container's mounts. */
export interface MountInput {
  readonly container: DesiredContainer;
  /** Path on this machine by volume name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Mounted images by volume name. @default none */
  readonly images?: ReadonlyMap<string, string>;
  /** The pod's user namespace. @default users are the machine's */
  readonly users?: UserNamespace | undefined;
  /** Names of the volumes whose files already belong to the pod's own users. */
  readonly shiftedVolumes: ReadonlySet<string>;
  /** Names of the read-only volumes. */
  readonly readOnlyVolumes: ReadonlySet<string>;
  readonly podFiles: PodFiles;
  /** File on this machine for the termination message. */
  readonly terminationFile: string;
  /** Folder for this run's subPaths, and for its mounts with mapped owners. */
  readonly subPaths: string;
  readonly mounter: Mounter;
}

/** Options that the API documents for image volumes, which do not contain programs of the container. */
const imageOptions = ["noexec", "nosuid", "nodev"];

/**
 * The container's mounts: its volumes, and then the files that every container of the pod gets, unless a volume is mounted in
 * their place.
 *
 * @throws {AgentError} code `AGENT_PATH_UNSAFE` or `AGENT_CONTAINER_CONFIG`
 */
export async function containerMounts(input: MountInput): Promise<readonly ContainerMount[]> {
  const { container } = input;
  if (container.mounts.some(({ propagation }) => propagation !== undefined))
    await input.mounter.share();
  const mounts: ContainerMount[] = [];
  /** Sources whose files belong to users of the machine. */
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
  // As in a kubelet, which mounts the first file itself. The runtime mounts the others.
  for (const [destination, source] of input.podFiles)
    add(source, destination, isReadOnly && destination !== "/etc/hosts");
  if (container.terminationMessagePath !== "") {
    fs.writeFileSync(input.terminationFile, "", { mode: 0o666 });
    // Independent of the umask, because the container's process may be any user and has to write its message.
    fs.chmodSync(input.terminationFile, 0o666);
    add(input.terminationFile, inContainer(container.terminationMessagePath), false);
  }
  return input.users ? await mapped(mounts, machines, { ...input, users: input.users }) : mounts;
}

/** Maps the owners of the mounts from the machine's users to the pod's. */
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

/** The mount options that containerd uses. Without any of these, the mount is private. */
function propagationOptions({ propagation }: DesiredVolumeMount): readonly string[] {
  if (propagation === undefined) return [];
  return [propagation === "Bidirectional" ? "rshared" : "rslave"];
}

/** A path in the container, made absolute like in kubelets, and normalized. */
function inContainer(place: string): string {
  return path.posix.resolve("/", place);
}

/** A variable in `subPathExpr` may expand to something that the API server would refuse. Uses the kubelet's words. */
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
