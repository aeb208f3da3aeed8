import { existsSync, mkdirSync } from "node:fs";
import { constants, hostname, totalmem } from "node:os";
import { AgentError, type DesiredPod, type DesiredContainer } from "@kip/agent-api";
import { defined, removeTree } from "@kip/base";
import type { ResolvedUser, StoredImage } from "@kip/oci-image";
import type { PodSandbox } from "@kip/oci-runtime";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import type { ContainerRun } from "../state/container-record.ts";
import type { PodResources } from "../state/pod-state.ts";
import type { CdiDevice } from "../devices/cdi-devices.ts";
import { withDevices } from "../devices/container-edits.ts";
import { isMemory } from "../volumes/pod-volumes.ts";
import { unbindSubPaths } from "../volumes/sub-path.ts";
import { containerMounts } from "./container-mounts.ts";
import { mountImages, unmountImages } from "./mounted-images.ts";
import { imageVolumes } from "./image-volumes.ts";
import { amountsOf, type AmountsByName } from "../state/amounts.ts";
import { oomScoreAdj } from "../state/oom-score.ts";
import { runId } from "../state/run-id.ts";
import { containerSpec } from "./container-spec.ts";
import { withFileEnv } from "./late-env.ts";

/** Inputs for a run. */
export interface RunInput {
  readonly pod: DesiredPod;
  readonly container: DesiredContainer;
  readonly image: StoredImage;
  /** Images of volumes by volume name. */
  readonly volumeImages: ReadonlyMap<string, StoredImage>;
  readonly attempt: number;
  /** Resources that each container of the pod should have, including `container`. */
  readonly amounts: AmountsByName;
  readonly resources: PodResources;
  /** Devices for the container. @default none */
  readonly devices?: readonly CdiDevice[] | undefined;
  /** File of the process namespace to join, instead of the pod's or a new one. */
  readonly pidNamespace?: string | undefined;
  readonly directories: AgentDirectories;
  readonly dependencies: AgentDependencies;
}

/**
 * Describes the run that {@link createContainer} will create, so that it can be recorded first.
 *
 * @param preparedId the ID of a container that the runtime has prepared for it, if any
 */
export function describeRun(
  input: Pick<RunInput, "pod" | "container" | "image" | "attempt" | "directories">,
  preparedId?: string,
): ContainerRun {
  const { container, attempt, image } = input;
  return {
    id: preparedId ?? runId(input.pod.uid, container.name, attempt),
    attempt,
    image: container.image,
    imageId: image.repoDigest,
    stopSignal: container.stopSignal ?? stopSignal(image.config.stopSignal),
    logDirectory: `${input.directories.logs}/${container.name}/${attempt}`,
    resources: amountsOf(container),
  };
}

/** Folder with a run's files: its root file system, the volumes of its image, its termination message. */
export function runDirectory(
  directories: AgentDirectories,
  run: Pick<ContainerRun, "id">,
): Readonly<Record<"path" | "volumes" | "imageVolumes" | "terminationFile" | "subPaths", string>> {
  const path = `${directories.containers}/${run.id}`;
  return {
    path,
    volumes: `${path}/volumes`,
    imageVolumes: `${path}/image-volumes`,
    terminationFile: `${path}/termination-log`,
    subPaths: `${directories.subPaths}/${run.id}`,
  };
}

/** Whether any files of a run are left on the disk. */
export function hasFiles(directories: AgentDirectories, run: Pick<ContainerRun, "id">): boolean {
  return existsSync(runDirectory(directories, run).path);
}

/**
 * Creates a container that waits to be started. Nothing of an earlier attempt at this run may be left.
 *
 * @returns the run, with the facts that are only known now
 * @throws {AgentError} code `AGENT_CONTAINER_CONFIG` or `AGENT_PATH_UNSAFE` if the pod's settings are not possible,
 * `AGENT_CONTAINER_INVALID` if there is no command, or its devices cannot be added; `CONTAINER_CREATE_FAILED` if its command cannot be run
 */
export async function createContainer(run: ContainerRun, input: RunInput): Promise<ContainerRun> {
  const { dependencies, image, resources, pidNamespace } = input;
  const { configProblem } = input.container;
  if (configProblem !== undefined) throw new AgentError("AGENT_CONTAINER_CONFIG", configProblem);
  const container = withFileEnv(input.container, resources.volumes);
  const directory = runDirectory(input.directories, run);
  mkdirSync(directory.path, { recursive: true });
  const { userNamespace: users } = resources.sandbox;
  const { rootfs } = await dependencies.images.mountRootfs(image, directory.path, users?.file);
  const ofImageAndContainer = await usersOf(input, rootfs);
  const mounts = await containerMounts({
    container,
    volumes: resources.volumes,
    images: await mountImages(input, directory.imageVolumes, users?.file),
    users,
    shiftedVolumes: shiftedVolumes(input.pod),
    readOnlyVolumes: readOnlyVolumes(input.pod),
    podFiles: resources.podFiles,
    terminationFile: directory.terminationFile,
    subPaths: directory.subPaths,
    mounter: dependencies.mounter,
  });
  const ofImage = await imageVolumes({
    volumes: image.config.volumes,
    mounts,
    rootfs,
    directory: directory.volumes,
    owner: users?.firstId ?? 0,
  });
  const spec = containerSpec({
    id: run.id,
    attempt: run.attempt,
    pod: input.pod,
    container,
    image: image.config,
    sandbox: { ...sandboxOf(input.pod, resources.sandbox), ...defined({ pidNamespace }) },
    rootfs,
    ...ofImageAndContainer,
    mounts: [...mounts, ...ofImage],
    logDirectory: run.logDirectory,
    logLimits: input.pod.logs,
    oomScoreAdj: oomScoreAdj(input.pod, container, {
      containers: input.amounts,
      memoryBytes: totalmem(),
    }),
  });
  const edited = await withDevices(spec, input.devices ?? [], dependencies.describeDevice);
  await dependencies.runtime.create(edited);
  const { uid, gid, additionalGids } = edited.user;
  return { ...run, user: { uid, gid, groups: additionalGids.slice(0, maxGroups) } };
}

/** Resolves the image's user and the one that the container names. */
async function usersOf(
  { container: { user }, image, dependencies }: RunInput,
  rootfs: string,
): Promise<{ readonly imageUser: ResolvedUser; readonly wantedUser?: ResolvedUser }> {
  const imageUser = await dependencies.resolveUser(
    rootfs,
    user === undefined ? image.config.user : "0",
  );
  if (user === undefined) return { imageUser };
  return { imageUser, wantedUser: await dependencies.resolveUser(rootfs, String(user)) };
}

/** Maximum number of a process's groups in a report. */
const maxGroups = 1000;

/** The pod's sandbox, with this machine's namespaces and name where the pod requests them. */
export function sandboxOf(
  { hostPID, hostIPC, hostNetwork }: Partial<DesiredPod>,
  sandbox: PodSandbox,
): PodSandbox {
  return {
    ...sandbox,
    ...(hostNetwork === true && { hostname: hostname() }),
    ...(hostPID === true && { pidNamespace: "/proc/1/ns/pid" }),
    ...(hostIPC === true && { ipcNamespace: "/proc/1/ns/ipc", sharedMemoryDir: "/dev/shm" }),
  };
}

/**
 * The process namespace of a running container.
 *
 * @throws {AgentError} code `AGENT_CONTAINER_NOT_RUNNING`
 */
export async function pidNamespaceOf(
  id: string,
  runtime: Pick<AgentDependencies["runtime"], "list">,
): Promise<string> {
  const { pid } = (await runtime.list()).find((state) => state.id === id) ?? {};
  if (pid !== undefined) return `/proc/${pid}/ns/pid`;
  throw new AgentError(
    "AGENT_CONTAINER_NOT_RUNNING",
    "Cannot join the target container: it has ended",
  );
}

/** Releases a run's resources, except its log. Does nothing if there are none. */
export async function discardRun(
  run: Pick<ContainerRun, "id">,
  options: { readonly directories: AgentDirectories; readonly dependencies: AgentDependencies },
): Promise<void> {
  const directory = runDirectory(options.directories, run);
  await options.dependencies.runtime.remove(run.id);
  await options.dependencies.images.unmountRootfs(directory.path);
  await unmountImages(directory.imageVolumes, options.dependencies.images);
  await unbindSubPaths(directory.subPaths, options.dependencies.mounter);
  await removeTree(directory.path);
}

/**
 * Volumes with files of ConfigMaps, Secrets and the like. The agent replaces these files as root, so a container that could put
 * links in their place could make it write and remove files elsewhere.
 */
function readOnlyVolumes({ volumes }: DesiredPod): ReadonlySet<string> {
  return new Set(volumes.filter(({ kind }) => kind === "files").map(({ name }) => name));
}

/** Volumes whose files already have owners from the pod's own users. They are on a tmpfs, which cannot map owners. */
function shiftedVolumes({ volumes }: DesiredPod): ReadonlySet<string> {
  const shifted = volumes.filter((volume) => volume.kind === "files" || isMemory(volume));
  return new Set(shifted.map(({ name }) => name));
}

/**
 * Normalizes an image's stop signal: a name with or without SIG in any case, or a number. crun sends nothing for a name that it
 * does not know, such as an alias of another signal.
 */
function stopSignal(text: string | undefined): string {
  if (text === undefined) return "SIGTERM";
  const upper = text.toUpperCase();
  const name = upper.startsWith("SIG") ? upper : `SIG${upper}`;
  const code = /^\d+$/.test(text) ? Number(text) : signals.get(name);
  return code === undefined ? name : (signalNames.get(code) ?? text);
}

const signals: ReadonlyMap<string, number> = new Map(Object.entries(constants.signals));
/** If a number has two names, the first one, which is the usual one. */
const signalNames = new Map([...signals].toReversed().map(([name, code]) => [code, name]));
