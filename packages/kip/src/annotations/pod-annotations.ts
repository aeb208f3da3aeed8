import { bytes, isCodedError, maxGlobLength } from "@kip/base";
import type { LaunchType } from "@kip/cloud";
import { annotation, readBoolean, readNumber } from "./annotation.ts";
import {
  maxRoutes,
  maxSecurityGroups,
  readInstanceProfile,
  readRoutes,
  readSecurityGroups,
} from "./launch-extras.ts";

/** Prefix of all annotation names in this table. */
export const annotationPrefix = "pod.elotl.co/";

const launchTypes: Readonly<Record<string, readonly LaunchType[]>> = {
  "on-demand": ["on-demand"],
  spot: ["spot"],
  dedicated: ["dedicated"],
  "spot-or-on-demand": ["spot", "on-demand"],
};

/** Every pod annotation that kip knows, by its name without the prefix. The original's names keep their meaning. */
export const podAnnotations = {
  "instance-type": annotation(
    `an instance type that cells can have, or a pattern with \`*\`, 2 to ${maxGlobLength} characters`,
    (text) =>
      text.length >= 2 && text.length <= maxGlobLength && !/\s|^t1\./.test(text) ? text : undefined,
    {
      meaning:
        "a type, which is used whatever the pod requests, or a pattern such as `t3.*`, of which the cheapest type that fits is used. AWS's `mac…` types are not available, because they run only macOS",
    },
  ),
  "launch-type": annotation(
    `one of ${Object.keys(launchTypes).join(", ")}`,
    (text) => {
      const name = text.length <= 32 ? text.toLowerCase() : "";
      return Object.hasOwn(launchTypes, name) ? launchTypes[name] : undefined;
    },
    {
      meaning:
        "how the machine is bought. `spot-or-on-demand` falls back to on-demand if no spot machine is available",
    },
  ),
  "max-price-per-hour": annotation(
    "a price in US dollars, such as 0.25",
    (text) => {
      const price = readNumber(text);
      return price !== undefined && price >= 0 ? price : undefined;
    },
    {
      meaning:
        "the highest price of the pod's machine per hour. The pod waits while all machines cost more",
    },
  ),
  architecture: annotation(
    "amd64 or arm64",
    (text) => (text === "amd64" || text === "arm64" ? text : undefined),
    {
      meaning:
        "processor architecture of the machine, in addition to the pod's node selector and affinity",
    },
  ),
  zone: annotation("a zone", (text) => (/^[\w.-]{1,63}$/.test(text) ? text : undefined), {
    meaning: "cloud zone of the machine",
  }),
  "boot-image": annotation(
    "a name from `cells.bootImages`",
    (text) => (/^[\w.-]{1,63}$/.test(text) ? text : undefined),
    { meaning: "image of the cell" },
  ),
  "private-ip-only": annotation("true or false, as Go's ParseBool reads it", readBoolean, {
    meaning:
      "with `true`, the machine has no public address. `false` does not override `cells.privateIPOnly`",
  }),
  "volume-size": annotation("the size of a disk, such as 20Gi", readSize, {
    meaning: "size of the root disk. Replaces the default and the pod's request",
  }),
  "healthcheck-healthy-timeout": annotation("a number of seconds", readNumber, {
    meaning:
      "how long the pod's cell may be unreachable before the pod gets a new one. 0 or less means without limit. Changes apply to running pods too",
  }),
  "security-groups": annotation(
    `IDs of at most ${maxSecurityGroups} security groups, with commas`,
    readSecurityGroups,
    {
      meaning:
        "[AWS](aws.md#security-groups-of-a-pod): security groups of the pod's machine, in addition to those of all cells",
      needs: "securityGroups",
    },
  ),
  "instance-profile": annotation(
    "the name or the ARN of an instance profile",
    readInstanceProfile,
    {
      meaning:
        "[AWS](aws.md#instance-profiles): instance profile with the pod's permissions. Replaces `cells.defaultIAMPermissions`",
      needs: "instanceProfile",
    },
  ),
  "cloud-route": annotation(`at most ${maxRoutes} ranges of addresses, with spaces`, readRoutes, {
    meaning:
      "[AWS](aws.md#routes-to-a-pod): address ranges that the VPC routes to the pod's machine, if `cloud.aws.podRoutes` is `true`",
    needs: "routes",
  }),
  "image-overlay-rootfs": annotation("true or false", (text) => text, {
    meaning: "",
    withoutEffect: "the root file system of a container is always an overlay on its image",
  }),
  "task-execution-role": annotation("an ARN", (text) => text, {
    meaning: "",
    withoutEffect: "pods run on machines, not on Fargate. It had no effect in the original either",
  }),
  "task-role": annotation("an ARN", (text) => text, {
    meaning: "",
    withoutEffect: "pods run on machines, not on Fargate. It had no effect in the original either",
  }),
} as const;

/** Parses a size, bytes. A value below one MiB lacks its unit, because no disk is that small. */
function readSize(text: string): number | undefined {
  try {
    const size = bytes(text);
    return size >= 2 ** 20 && Number.isSafeInteger(size) ? size : undefined;
  } catch (error) {
    if (isCodedError(error)) return undefined;
    throw error;
  }
}
