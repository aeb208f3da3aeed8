import { existsSync, mkdirSync } from "node:fs";
import { AgentError, type DesiredPod, type DesiredContainer } from "@kip/agent-api";
import { defined, removeTree } from "@kip/base";
import type { StoredImage } from "@kip/oci-image";
import type { PodSandbox } from "@kip/oci-runtime";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import type { ContainerRun } from "../state/container-record.ts";
import type { PodResources } from "../state/pod-state.ts";
import { unbindSubPaths } from "../volumes/sub-path.ts";
import { containerMounts } from "./container-mounts.ts";
import { imageVolumes } from "./image-volumes.ts";
import { runId } from "../state/run-id.ts";
import { containerSpec } from "./container-spec.ts";

/** What a run is made from. */
export interface RunInput {
  readonly pod: DesiredPod;
  readonly container: DesiredContainer;
  readonly image: StoredImage;
  readonly attempt: number;
  readonly resources: PodResources;
  /** File of the namespace of processes to be in, in place of the pod's or one of its own. */
  readonly pidNamespace?: string | undefined;
  readonly directories: AgentDirectories;
  readonly dependencies: AgentDependencies;
}

/**
 * The run that {@link createContainer} will make. Known before, so that it can be written down first.
 *
 * @param preparedId the ID that the runtime has prepared for it, if it has
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
    stopSignal: stopSignal(image.config.stopSignal),
    logPath: `${input.directories.logs}/${container.name}/${attempt}.log`,
  };
}

/** Files of a run: its root file system, the volumes of its image, its termination message. */
export function runDirectory(
  directories: AgentDirectories,
  run: Pick<ContainerRun, "id">,
): Readonly<Record<"path" | "volumes" | "terminationFile" | "subPaths", string>> {
  const path = `${directories.containers}/${run.id}`;
  return {
    path,
    volumes: `${path}/volumes`,
    terminationFile: `${path}/termination-log`,
    subPaths: `${directories.subPaths}/${run.id}`,
  };
}

/** Whether anything of a run is still on the disk. */
export function hasFiles(directories: AgentDirectories, run: Pick<ContainerRun, "id">): boolean {
  return existsSync(runDirectory(directories, run).path);
}

/**
 * Makes a container that waits to be started. Nothing of an earlier try at this run may be left.
 *
 * @throws {AgentError} code `AGENT_CONTAINER_CONFIG` or `AGENT_PATH_UNSAFE` when the pod cannot be run
 * so, `CONTAINER_CREATE_FAILED` when its command cannot
 */
export async function createContainer(run: ContainerRun, input: RunInput): Promise<void> {
  const { container, dependencies, image, resources, pidNamespace } = input;
  const directory = runDirectory(input.directories, run);
  mkdirSync(directory.path, { recursive: true });
  const { rootfs } = await dependencies.images.mountRootfs(image, directory.path);
  const imageUser = await dependencies.resolveUser(
    rootfs,
    container.user === undefined ? image.config.user : "0",
  );
  const wantedUser =
    container.user === undefined
      ? undefined
      : await dependencies.resolveUser(rootfs, String(container.user));
  const mounts = await containerMounts({
    container,
    volumes: resources.volumes,
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
  });
  const spec = containerSpec({
    id: run.id,
    attempt: run.attempt,
    pod: input.pod,
    container,
    image: image.config,
    sandbox: { ...sandboxOf(input.pod, resources.sandbox), ...defined({ pidNamespace }) },
    rootfs,
    imageUser,
    wantedUser,
    mounts: [...mounts, ...ofImage],
    logPath: run.logPath,
  });
  await dependencies.runtime.create(spec);
}

/** The pod's sandbox, with the namespaces of this machine that the pod wants in place of its own. */
export function sandboxOf(
  { hostPID, hostIPC }: Pick<DesiredPod, "hostPID" | "hostIPC">,
  sandbox: PodSandbox,
): PodSandbox {
  return {
    ...sandbox,
    ...(hostPID === true && { pidNamespace: "/proc/1/ns/pid" }),
    ...(hostIPC === true && { ipcNamespace: "/proc/1/ns/ipc", sharedMemoryDir: "/dev/shm" }),
  };
}

/**
 * The namespace of processes of a running container.
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

/** Frees what a run had, except its log. Does nothing if nothing is left. */
export async function discardRun(
  run: Pick<ContainerRun, "id">,
  options: { readonly directories: AgentDirectories; readonly dependencies: AgentDependencies },
): Promise<void> {
  const directory = runDirectory(options.directories, run);
  await options.dependencies.runtime.remove(run.id);
  await options.dependencies.images.unmountRootfs(directory.path);
  await unbindSubPaths(directory.subPaths, options.dependencies.mounter);
  await removeTree(directory.path);
}

/**
 * Files of ConfigMaps, Secrets and the like are the agent's, which exchanges them as root: a container that could put links
 * in their place would have it write and remove elsewhere.
 */
function readOnlyVolumes({ volumes }: DesiredPod): ReadonlySet<string> {
  return new Set(volumes.filter(({ kind }) => kind === "files").map(({ name }) => name));
}

/** An image writes its stop signal as a name with or without SIG, or as a number. */
function stopSignal(text: string | undefined): string {
  if (text === undefined) return "SIGTERM";
  const isPlainName = !/^\d+$/.test(text) && !text.startsWith("SIG");
  return isPlainName ? `SIG${text}` : text;
}
