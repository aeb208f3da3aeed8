import fs from "node:fs";
import { AgentError, type DesiredContainer, type DesiredVariable } from "@kip/agent-api";
import { errorText, expandReferences, referencesIn } from "@kip/base";
import { pinInRoot } from "../volumes/safe-path.ts";
import { EnvFile } from "./env-file.ts";

type FileKey = NonNullable<DesiredVariable["file"]>;

/** Maximum total size of a container's files, bytes. The kubelet has no limit. */
const maxFileBytes = 1024 * 1024;
/** Maximum length of a value, characters. The kubelet's limit. */
const maxValue = 32 * 1024;
/** Maximum length of an environment with arguments, characters. Linux accepts less. */
const maxExpanded = 8 * 1024 * 1024;

/**
 * The container with the current values from files of the pod, including those in its command, its arguments and the paths in its
 * volumes. An optional
 * variable without a value keeps the value of an earlier entry with the same name, or is left out.
 *
 * @param volumes path on this machine by volume name
 * @throws {AgentError} code `AGENT_CONTAINER_CONFIG`, in the kubelet's words
 */
export function withFileEnv(
  container: DesiredContainer,
  volumes: ReadonlyMap<string, string>,
): DesiredContainer {
  if (container.hasLateArguments !== true) return container;
  const values = new Map<string, string>();
  const files = new EnvFiles(volumes);
  let room = maxExpanded;
  const expand = (text: string): string => {
    const whole = expandReferences(text, (name, reference) => values.get(name) ?? reference);
    room -= whole.length;
    if (room < 0)
      throw refused(`the environment is larger than ${maxExpanded} bytes when it is expanded`);
    return whole;
  };
  const expandSubPath = (template: string): string => {
    const missing = referencesIn(template).find((name) => (values.get(name) ?? "") === "");
    if (missing !== undefined) throw refused(`missing value for ${missing}`);
    return expand(template);
  };
  for (const { name, value, file, template } of container.env) {
    const own = file ? files.value(file) : template === undefined ? value : expand(template);
    if (own !== undefined) values.set(name, own);
  }
  const env = [...values].map(([name, value]) => ({ name, value }));
  const { command, args, mounts, ...others } = container;
  return {
    ...others,
    hasLateArguments: false,
    env,
    mounts: mounts.map(({ subPathTemplate: template, ...mount }) =>
      template === undefined ? mount : { ...mount, subPath: expandSubPath(template) },
    ),
    ...(command && { command: command.map(expand) }),
    ...(args && { args: args.map(expand) }),
  };
}

/** The files for a container's variables. Each is read once. */
class EnvFiles {
  readonly #volumes: ReadonlyMap<string, string>;
  readonly #files = new Map<string, EnvFile>();
  #room = maxFileBytes;

  constructor(volumes: ReadonlyMap<string, string>) {
    this.#volumes = volumes;
  }

  /** The value. Undefined if the variable is optional and has none. */
  value({ volume, path, key, isOptional }: FileKey): string | undefined {
    const root = this.#volumes.get(volume);
    if (root === undefined)
      throw refused(`cannot find the volume "${volume}" referenced by FileKeyRef`);
    let value: string;
    try {
      value = this.#file(root, path).value(key);
    } catch (error) {
      throw new AgentError("AGENT_CONTAINER_CONFIG", "couldn't parse env file", {
        cause: error,
        remedy: errorText(error),
      });
    }
    if (value.length > maxValue)
      throw refused(`environment variable value for key "${key}" exceeds maximum size of 32KB`);
    if (value !== "") return value;
    if (isOptional) return undefined;
    throw refused(`environment variable key "${key}" not found in file "${path}"`);
  }

  #file(root: string, path: string): EnvFile {
    const place = `${root}\0${path}`;
    const known = this.#files.get(place);
    if (known) return known;
    const bytes = content(root, path, this.#room);
    this.#room -= bytes.length;
    const file = new EnvFile(bytes.toString());
    this.#files.set(place, file);
    return file;
  }
}

/** A container may be writing to the volume. So links must not lead out of it, and only regular files are opened. */
function content(root: string, path: string, room: number): Buffer {
  using pinned = pinInRoot(root, path);
  if (!pinned) throw new Error(`there is no file "${path}"`);
  if (!fs.statSync(pinned.path).isFile()) throw new Error(`"${path}" is not a file`);
  const fd = fs.openSync(pinned.path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    const { size } = fs.fstatSync(fd);
    if (size > room)
      throw new Error(`the files of variables are larger than ${maxFileBytes} bytes together`);
    const buffer = Buffer.alloc(size);
    return buffer.subarray(0, fs.readSync(fd, buffer, 0, size, 0));
  } finally {
    fs.closeSync(fd);
  }
}

function refused(message: string): AgentError {
  return new AgentError("AGENT_CONTAINER_CONFIG", message);
}
