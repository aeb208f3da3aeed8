import { constants } from "node:fs";
import { open } from "node:fs/promises";
import path from "node:path";
import { decode, errorText, isSystemError } from "@kip/base";
import type { DesiredSeccompProfile } from "@kip/agent-api";
import type { Container, EphemeralContainer, Pod } from "@kip/k8s-types";

const { integer, list, object, oneOf, optional, string } = decode;

/** Maximum size of a profile, bytes. containerd's default has some 20,000. */
const maxProfileBytes = 256 * 1024;
/** Maximum total size of a pod's profiles. */
const maxPodBytes = 1024 * 1024;

/** SCMP_ACT_NOTIFY is not supported, because it needs a program on the node that decides. */
const action = oneOf(
  "SCMP_ACT_ALLOW",
  "SCMP_ACT_ERRNO",
  "SCMP_ACT_KILL",
  "SCMP_ACT_KILL_PROCESS",
  "SCMP_ACT_KILL_THREAD",
  "SCMP_ACT_LOG",
  "SCMP_ACT_TRACE",
  "SCMP_ACT_TRAP",
);
const operator = oneOf(
  "SCMP_CMP_EQ",
  "SCMP_CMP_GE",
  "SCMP_CMP_GT",
  "SCMP_CMP_LE",
  "SCMP_CMP_LT",
  "SCMP_CMP_MASKED_EQ",
  "SCMP_CMP_NE",
);

/**
 * The part of a profile that runtimes read. Other fields are ignored, as in containerd, including `archMap`, `includes` and
 * `excludes` of Docker's profiles.
 *
 * @see https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp
 */
const decodeProfile = object({
  defaultAction: action,
  defaultErrnoRet: optional(integer),
  architectures: optional(list(string)),
  flags: optional(list(string)),
  syscalls: optional(
    list(
      object({
        names: list(string),
        action,
        errnoRet: optional(integer),
        args: optional(
          list(
            object({ index: integer, value: integer, valueTwo: optional(integer), op: operator }),
          ),
        ),
      }),
    ),
  ),
});

/**
 * The seccomp profiles that the pod's containers name by `localhostProfile`. They are read from a folder of this machine, like
 * a kubelet reads them from its own. A problem with a profile is also a result: its containers are not created then.
 *
 * @param root absolute path
 */
export async function readSeccompProfiles(
  pod: Pod,
  root: string,
): Promise<readonly DesiredSeccompProfile[]> {
  const names = new Set(containersOf(pod).flatMap((each) => localhostProfile(pod, each) ?? []));
  const profiles: DesiredSeccompProfile[] = [];
  let left = maxPodBytes;
  for (const name of names) {
    const profile = await readProfile(name, root, Math.min(left, maxProfileBytes));
    left -= profile.json?.length ?? 0;
    profiles.push(profile);
  }
  return profiles;
}

/** Name of the file with the container's profile, if it has one. A privileged container is not filtered. */
export function localhostProfile(
  { spec }: Pod,
  { securityContext }: Container | EphemeralContainer,
): string | undefined {
  if (securityContext?.privileged === true) return undefined;
  const profile = securityContext?.seccompProfile ?? spec.securityContext?.seccompProfile;
  return profile?.type === "Localhost" ? (profile.localhostProfile ?? "") : undefined;
}

function containersOf({ spec }: Pod): readonly (Container | EphemeralContainer)[] {
  const { initContainers = [], containers, ephemeralContainers = [] } = spec;
  return [...initContainers, ...containers, ...ephemeralContainers];
}

async function readProfile(
  name: string,
  root: string,
  limitBytes: number,
): Promise<DesiredSeccompProfile> {
  // The API server accepts no other paths.
  if (name === "" || path.isAbsolute(name) || name.split("/").includes(".."))
    return { name, error: `seccomp profile "${name}" must be a relative path without ".."` };
  const file = path.join(root, name);
  let text: string;
  try {
    text = await readText(file, limitBytes);
  } catch (error) {
    return { name, error: `cannot load seccomp profile "${file}": ${reasonOf(error, file)}` };
  }
  try {
    return { name, json: JSON.stringify(decodeProfile(JSON.parse(text), "")) };
  } catch (error) {
    return { name, error: `decoding seccomp profile failed "${file}": ${errorText(error)}` };
  }
}

/** For the most frequent errors, Go's words, which a kubelet's users see. */
function reasonOf(error: unknown, file: string): string {
  if (isSystemError(error, "ENOENT", "ENOTDIR")) return `open ${file}: no such file or directory`;
  if (isSystemError(error, "EACCES")) return `open ${file}: permission denied`;
  return errorText(error);
}

/** Follows links, because the folder belongs to an administrator and may be a ConfigMap's volume. */
async function readText(file: string, limitBytes: number): Promise<string> {
  // Opening a named pipe would otherwise wait for a writer.
  await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const stat = await handle.stat();
  if (!stat.isFile()) throw new TypeError("it is not a file");
  const buffer = Buffer.alloc(Math.min(stat.size, limitBytes) + 1);
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
  if (stat.size > limitBytes || bytesRead > limitBytes)
    throw new RangeError(`it is larger than ${limitBytes} bytes`);
  return buffer.toString("utf8", 0, bytesRead);
}
