import { textBefore } from "@kip/base";
import type {
  ContainerDevice,
  ContainerHook,
  ContainerMount,
  ContainerSpec,
} from "@kip/oci-runtime";
import { AgentError } from "@kip/agent-api";
import type { CdiDevice } from "./cdi-devices.ts";
import type { ContainerEdits } from "./cdi-file.ts";

/** Describes a device node of the machine. Undefined if it does not exist. */
export type DescribeDevice = (
  file: string,
) => Promise<Pick<ContainerDevice, "type" | "major" | "minor"> | undefined>;

/** The parts of a container's specification that devices change. */
type Edited = Pick<ContainerSpec, "env" | "mounts" | "user">;

/**
 * Adds the changes of devices to a container: variables, device nodes, mounts, hooks and groups. Changes for all devices of a
 * file are only made once.
 *
 * @throws {AgentError} code `AGENT_CONTAINER_INVALID` for a device node that does not exist, or an unsupported kind of mount
 */
export async function withDevices<S extends Edited>(
  spec: S,
  devices: readonly CdiDevice[],
  describe: DescribeDevice,
): Promise<S & Pick<ContainerSpec, "devices" | "hooks">> {
  if (devices.length === 0) return spec;
  const edits = distinct(devices.flatMap((device) => device.edits));
  const nodes = distinct(edits.flatMap(({ deviceNodes = [] }) => deviceNodes));
  const all = <T>(of: (one: ContainerEdits) => readonly T[] | undefined): readonly T[] =>
    distinct(edits.flatMap((one) => of(one) ?? []));
  return {
    ...spec,
    env: withVariables(
      spec.env,
      all(({ env }) => env),
    ),
    mounts: [...spec.mounts, ...all(({ mounts }) => mounts).map(containerMount)],
    user: {
      ...spec.user,
      additionalGids: [
        ...new Set([...spec.user.additionalGids, ...all(({ additionalGids }) => additionalGids)]),
      ],
    },
    devices: await Promise.all(nodes.map(async (node) => await deviceOf(node, spec, describe))),
    hooks: all(({ hooks }) => hooks).map(({ hookName: kind, ...hook }): ContainerHook => {
      return { kind, ...hook };
    }),
  };
}

/** Later entries replace earlier ones with the same name. */
function withVariables(env: readonly string[], added: readonly string[]): readonly string[] {
  const byName = new Map([...env, ...added].map((entry) => [textBefore(entry, "="), entry]));
  return [...byName.values()];
}

type Node = NonNullable<ContainerEdits["deviceNodes"]>[number];

/** Fields that the file omits come from the machine, except the owner, which is the container's user, as in containerd. */
async function deviceOf(
  node: Node,
  { user }: Edited,
  describe: DescribeDevice,
): Promise<ContainerDevice> {
  const { path, hostPath = path, fileMode = 0o666, permissions: access = "rwm" } = node;
  const { type, major, minor, uid = user.uid, gid = user.gid } = node;
  if (type === "p") throw wrong(`device node "${path}" is a pipe`);
  const own = { path, access, fileMode, uid, gid };
  if (type !== undefined && major !== undefined && minor !== undefined)
    return { ...own, type: type === "b" ? "b" : "c", major, minor };
  const found = await describe(hostPath);
  if (!found) throw wrong(`device node "${hostPath}" is not there`);
  const { type: kind, major: foundMajor, minor: foundMinor } = found;
  return { ...own, type: kind, major: foundMajor, minor: foundMinor };
}

function containerMount({
  hostPath,
  containerPath,
  type = "bind",
  options = [],
}: NonNullable<ContainerEdits["mounts"]>[number]): ContainerMount {
  if (type !== "bind" && type !== "tmpfs" && type !== "")
    throw wrong(`mount of type "${type}" at "${containerPath}"`);
  const others = options.filter((one) => !["ro", "rw", "bind", "rbind"].includes(one));
  return {
    type: type === "tmpfs" ? "tmpfs" : "bind",
    source: hostPath,
    destination: containerPath,
    readOnly: options.includes("ro"),
    ...(others.length > 0 && { options: others }),
  };
}

/** Removes duplicates by content. */
function distinct<T>(all: readonly T[]): readonly T[] {
  return [...new Map(all.map((one) => [JSON.stringify(one), one])).values()];
}

function wrong(reason: string): AgentError {
  return new AgentError("AGENT_CONTAINER_INVALID", `failed to inject CDI devices: ${reason}`, {
    remedy: "Correct the file of devices in /etc/cdi or /var/run/cdi of the cell",
  });
}
