import { bytes, isCodedError, maxGlobLength } from "@kip/base";
import type { LaunchType } from "@kip/cloud";
import { annotation, readBoolean, readNumber } from "./annotation.ts";
import {
  mostRoutes,
  mostSecurityGroups,
  readInstanceProfile,
  readRoutes,
  readSecurityGroups,
} from "./launch-extras.ts";

/** What the names of all annotations of the family begin with. */
export const annotationPrefix = "pod.elotl.co/";

const launchTypes: Readonly<Record<string, readonly LaunchType[]>> = {
  "on-demand": ["on-demand"],
  spot: ["spot"],
  dedicated: ["dedicated"],
  "spot-or-on-demand": ["spot", "on-demand"],
};

/** Every annotation of a pod that kip knows, by its name behind the prefix. Names of the original mean what they mean there. */
export const podAnnotations = {
  "instance-type": annotation(
    `an instance type that cells can have, or a pattern with \`*\`, 2 to ${maxGlobLength} characters`,
    (text) =>
      text.length >= 2 && text.length <= maxGlobLength && !/\s|^t1\./.test(text) ? text : undefined,
    {
      meaning:
        "a type, which is taken whatever the pod asks for, or a pattern such as `t3.*`: the cheapest that matches and fits. Types `mac…` of AWS are not on offer: they run macOS alone, and cells are Linux",
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
        "how the machine is bought; `spot-or-on-demand`: on demand where there is no spot machine",
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
        "the most that the pod's machine may cost per hour; the pod waits while each costs more",
    },
  ),
  architecture: annotation(
    "amd64 or arm64",
    (text) => (text === "amd64" || text === "arm64" ? text : undefined),
    { meaning: "processor of the machine, besides what the pod's node selector and affinity say" },
  ),
  zone: annotation("a zone", (text) => (/^[\w.-]{1,63}$/.test(text) ? text : undefined), {
    meaning: "zone of the cloud that the machine is in",
  }),
  "boot-image": annotation(
    "a name from `cells.bootImages`",
    (text) => (/^[\w.-]{1,63}$/.test(text) ? text : undefined),
    { meaning: "image of the cell, one of those that `cells.bootImages` of `provider.yaml` names" },
  ),
  "private-ip-only": annotation("true or false, as Go's ParseBool reads it", readBoolean, {
    meaning: "`true`: no public address. `false` does not overrule `cells.privateIPOnly`",
  }),
  "volume-size": annotation("the size of a disk, such as 20Gi", readSize, {
    meaning: "size of the root disk, instead of the default and what the pod requests",
  }),
  "healthcheck-healthy-timeout": annotation("a number of seconds", readNumber, {
    meaning:
      "how long the pod's cell may be out of reach before the pod gets a new one; 0 or less: as long as it may be. It counts when it is changed, too",
  }),
  "security-groups": annotation(
    `IDs of at most ${mostSecurityGroups} security groups, with commas`,
    readSecurityGroups,
    {
      meaning:
        "[AWS](aws.md#security-groups-of-a-pod): groups that the pod's machine has besides those of all cells",
      needs: "securityGroups",
    },
  ),
  "instance-profile": annotation(
    "the name or the ARN of an instance profile",
    readInstanceProfile,
    {
      meaning:
        "[AWS](aws.md#instance-profiles): what the pod may do at AWS, instead of `cells.defaultIAMPermissions`",
      needs: "instanceProfile",
    },
  ),
  "cloud-route": annotation(`at most ${mostRoutes} ranges of addresses, with spaces`, readRoutes, {
    meaning:
      "[AWS](aws.md#routes-to-a-pod): ranges whose packets the VPC leads to the pod's machine, if `cloud.aws.podRoutes` allows it",
    needs: "routes",
  }),
  "image-overlay-rootfs": annotation("true or false", (text) => text, {
    meaning: "",
    withoutEffect: "the files of containers are always an overlay of their image",
  }),
  "task-execution-role": annotation("an ARN", (text) => text, {
    meaning: "",
    withoutEffect: "pods run on machines, not on Fargate; it had no effect in the original either",
  }),
  "task-role": annotation("an ARN", (text) => text, {
    meaning: "",
    withoutEffect: "pods run on machines, not on Fargate; it had no effect in the original either",
  }),
} as const;

/** Bytes. */
function readSize(text: string): number | undefined {
  try {
    const size = bytes(text);
    return size > 0 && Number.isSafeInteger(size) ? size : undefined;
  } catch (error) {
    if (isCodedError(error)) return undefined;
    throw error;
  }
}
