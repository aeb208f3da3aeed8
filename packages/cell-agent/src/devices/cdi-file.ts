import { decode, type Decoded } from "@kip/base";
import { parseCdiYaml } from "./cdi-yaml.ts";

const { between, integer, list, map, object, oneOf, optional, string } = decode;
const strict = { unknownKeys: "reject" } as const;
const id = between(integer, 0, 2 ** 32 - 1);

const deviceNode = object(
  {
    path: string,
    /** Path on the machine. @default `path` */
    hostPath: optional(string),
    type: optional(oneOf("b", "c", "u", "p")),
    major: optional(integer),
    minor: optional(integer),
    fileMode: optional(integer),
    /** @default "rwm" */
    permissions: optional(string),
    uid: optional(id),
    gid: optional(id),
  },
  strict,
);

const mount = object(
  {
    hostPath: string,
    containerPath: string,
    type: optional(string),
    options: optional(list(string)),
  },
  strict,
);

const hook = object(
  {
    hookName: oneOf(
      "prestart",
      "createRuntime",
      "createContainer",
      "startContainer",
      "poststart",
      "poststop",
    ),
    path: string,
    args: optional(list(string)),
    env: optional(list(string)),
    timeout: optional(integer),
  },
  strict,
);

const containerEdits = object(
  {
    env: optional(list(string)),
    deviceNodes: optional(list(deviceNode)),
    mounts: optional(list(mount)),
    hooks: optional(list(hook)),
    additionalGids: optional(list(id)),
  },
  strict,
);

const decodeSpecification = object(
  {
    cdiVersion: string,
    kind: string,
    annotations: optional(map(string)),
    devices: list(
      object({ name: string, annotations: optional(map(string)), containerEdits }, strict),
    ),
    containerEdits: optional(containerEdits),
  },
  strict,
);

/** A file of devices of one kind. */
export type CdiSpecification = Decoded<typeof decodeSpecification>;
/** The changes to a container that uses a device. */
export type ContainerEdits = Decoded<typeof containerEdits>;

/** Versions that have exactly the fields above. From 1.1.0 on there are more. */
const versions = /^(0\.[3-8]|1\.0)\.\d+$/;
const kinds = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\/[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$/i;

/**
 * Parses a file of the Container Device Interface, in JSON or YAML. Refuses unknown fields, as the specification requires.
 *
 * @param isYaml from the file's name
 * @throws {DecodeError} `DECODE_FAILED`; SyntaxError
 * @see https://github.com/cncf-tags/container-device-interface/blob/v0.8.0/SPEC.md
 */
export function parseCdiFile(text: string, isYaml: boolean): CdiSpecification {
  const specification = decodeSpecification(isYaml ? parseCdiYaml(text) : JSON.parse(text), "");
  const { cdiVersion, kind, devices } = specification;
  if (!versions.test(cdiVersion)) throw decode.failure("cdiVersion", "0.3.0 to 1.0.x", cdiVersion);
  if (!kinds.test(kind)) throw decode.failure("kind", "vendor.com/class", kind);
  if (devices.length === 0) throw decode.failure("devices", "one device or more", devices);
  return specification;
}
