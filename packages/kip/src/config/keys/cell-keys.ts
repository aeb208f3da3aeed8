import { list, map, section, value } from "./key.ts";
import {
  anything,
  cachePath,
  cidr,
  dnsLabel,
  flag,
  imageProperty,
  instanceProfile,
  instanceType,
  integer,
  mountOptions,
  nfsShare,
  quantity,
  seconds,
  sizeFrom,
  text,
} from "./kinds.ts";

/** A mistyped number must not buy machines without end. As many as the pods that one kip is measured with. */
const maxStandbyCells = 5000;

const standbyCell = section(
  {
    instanceType: value(instanceType, {
      meaning: "full name of the instance type of these [standby cells](standby.md)",
    }),
    count: value(integer(0, maxStandbyCells), {
      meaning: `number of standby cells, at most ${maxStandbyCells}`,
    }),
    spot: value(flag, { meaning: "whether they are spot instances", fallback: "`false`" }),
    dedicated: value(flag, {
      meaning: "whether they run on dedicated hardware",
      fallback: "`false`",
    }),
    zone: value(text, { meaning: "zone of these cells", fallback: "as for other cells" }),
    privateIPOnly: value(flag, {
      meaning: "whether they have no public addresses",
      fallback: "`cells.privateIPOnly`",
    }),
    bootImage: value(text, {
      meaning: "image of these cells, by a name from `cells.bootImages`",
      fallback: "`cells.bootImageSpec`",
    }),
  },
  { required: ["instanceType", "count"] },
);

const healthcheck = section({
  status: section({
    healthyTimeout: value(seconds, {
      meaning:
        "seconds that a cell may be unreachable before its pod gets a new one. [An annotation](#annotations-of-a-pod) changes it for one pod",
      fallback: "`90`",
    }),
  }),
  cloudAPI: section({
    healthyTimeout: value(seconds, {
      meaning:
        "instead of `status`. Seconds that a cell may be unreachable and not running according to the cloud, before its pod gets a new one. See [health](#health-of-cells)",
      fallback: "`180`",
    }),
    interval: value(integer(10), {
      meaning: "seconds between two questions to the cloud, while the cell is unreachable",
      fallback: "`60`",
    }),
  }),
});

const cellConfig = section(
  {
    imageCacheEndpoint: value(nfsShare, { meaning: "the original's name for `images.cache.nfs`" }),
    imageCacheMountDir: value(cachePath, {
      meaning: "the original's name for `images.cache.path`",
      fallback: "`/nfs`",
    }),
    imageCacheMountOpts: value(mountOptions, {
      meaning: "the original's name for `images.cache.options`",
    }),
  },
  {
    others: value(anything, {
      replacedBy: "the agent takes its settings from kip, not from a file on the cell",
    }),
  },
);

/** The section `cells`. */
export const cellKeys = section(
  {
    bootImageSpec: map(value(imageProperty), {
      meaning: "image that cells boot. On the local cloud, the key is `id`",
      fallback: "newest image",
    }),
    bootImages: map(map(value(imageProperty)), {
      meaning:
        "further images by name, each with the keys of `bootImageSpec`. Pods choose among these with `pod.elotl.co/boot-image`, and cannot choose others",
    }),
    defaultInstanceType: value(instanceType, {
      meaning: "instance type, or a pattern, for pods without requests and limits",
      fallback: "cheapest",
    }),
    defaultVolumeSize: value(sizeFrom(2 ** 30, "1Gi"), {
      meaning: "size of the root disk, 1Gi or more",
      fallback: "`5Gi`",
    }),
    nametag: value(dnsLabel, {
      meaning: "value of the tag `kip-nametag` of instances, a DNS label. For people and bills",
      fallback: "the ID of the installation",
    }),
    extendedResources: map(map(value(quantity)), {
      meaning:
        "further resources of instance types: counts by resource, by a pattern for type names. See [devices](#gpus-and-other-extended-resources)",
    }),
    privateIPOnly: value(flag, {
      meaning: "whether cells have no public addresses",
      fallback: "`false`",
    }),
    healthcheck,
    cellConfig,
    standbyCells: list(standbyCell),
    cloudInitFile: value(text, {
      meaning:
        "a [cloud-config](cloud-init.md) that each cell applies before its pod starts. The path is relative to the folder of `provider.yaml`",
    }),
    itzo: section(
      { version: value(anything), url: value(anything) },
      { replacedBy: "the agent is part of the cell image, `cells.bootImageSpec`" },
    ),
    extraCIDRs: list(value(cidr), {
      meaning:
        "AWS only: address ranges outside the VPC that the cells' security group admits, and [that pods reach with their own addresses](aws.md#the-internet)",
      reload: "restart",
    }),
    extraSecurityGroups: list(value(text), {
      meaning: "AWS only: IDs of security groups that cells get in addition to Kip's own",
      reload: "restart",
    }),
    statusInterval: value(integer(0), {
      replacedBy: "agents report each change at once, and nothing is polled",
    }),
    defaultIAMPermissions: value(instanceProfile, {
      meaning:
        "AWS only: name or ARN of the cells' [instance profile](aws.md#instance-profiles). It gives pods their permissions at AWS. A pod may name another one",
    }),
    useCloudParameterStore: value(flag, {
      replacedBy:
        'user data holds the identity of its own cell alone; all other secrets are sent over the agent\'s connection. Why there are no parameters is in docs/aws.md, "No parameter store"',
    }),
  },
  { reload: "live" },
);
