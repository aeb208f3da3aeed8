import { list, map, section, value } from "./key.ts";
import {
  cachePath,
  cidr,
  dnsLabel,
  flag,
  instanceProfile,
  instanceType,
  integer,
  mountOptions,
  nfsShare,
  quantity,
  seconds,
  sizeFrom,
  text,
  url,
} from "./kinds.ts";

const standbyCell = section(
  {
    instanceType: value(instanceType, {
      meaning: "type of the [cells that stand by](standby.md) for pods, by its full name",
    }),
    count: value(integer(0), { meaning: "how many of them there are" }),
    spot: value(flag, { meaning: "spot instances", fallback: "`false`" }),
    dedicated: value(flag, { meaning: "on hardware of their own", fallback: "`false`" }),
    zone: value(text, { meaning: "their zone", fallback: "that of all cells" }),
    privateIPOnly: value(flag, {
      meaning: "no public addresses",
      fallback: "`cells.privateIPOnly`",
    }),
    bootImage: value(text, {
      meaning: "their image, one of `cells.bootImages`",
      fallback: "that of `cells.bootImageSpec`",
    }),
  },
  { required: ["instanceType", "count"] },
);

const healthcheck = section({
  status: section({
    healthyTimeout: value(seconds, {
      meaning:
        "seconds a cell may be out of reach before its pod gets a new one; a pod can have [its own](#annotations-of-a-pod)",
      fallback: "`90`",
    }),
  }),
  cloudAPI: section({
    healthyTimeout: value(seconds, {
      meaning:
        "instead of `status`: a cell out of reach stays while the cloud says that it runs; seconds without either before its pod gets a new one, see [health](#health-of-cells)",
      fallback: "`180`",
    }),
    interval: value(integer(10), {
      meaning: "how often the cloud is asked meanwhile, seconds",
      fallback: "`60`",
    }),
  }),
});

const cellConfig = section(
  {
    imageCacheEndpoint: value(nfsShare, { meaning: "the original's `images.cache.nfs`" }),
    imageCacheMountDir: value(cachePath, {
      meaning: "the original's `images.cache.path`",
      fallback: "`/nfs`",
    }),
    imageCacheMountOpts: value(mountOptions, { meaning: "the original's `images.cache.options`" }),
  },
  {
    others: value(text, {
      replacedBy: "the agent takes its settings from kip, not from a file on the cell",
    }),
  },
);

/** The section `cells`. */
export const cellKeys = section(
  {
    bootImageSpec: map(value(text), {
      meaning: "which image cells boot; local cloud: `id`",
      fallback: "newest image",
    }),
    bootImages: map(map(value(text)), {
      meaning:
        "further images by name, each with the keys of `bootImageSpec`: pods may choose these, and no others, with `pod.elotl.co/boot-image`",
    }),
    defaultInstanceType: value(instanceType, {
      meaning: "type for pods that ask for nothing, or a pattern",
      fallback: "cheapest",
    }),
    defaultVolumeSize: value(sizeFrom(2 ** 30, "1Gi"), {
      meaning: "root disk, 1Gi or more",
      fallback: "`5Gi`",
    }),
    nametag: value(dnsLabel, {
      meaning: "tag `kip-nametag` of instances, for people and bills: a DNS label",
      fallback: "the ID of the installation",
    }),
    extendedResources: map(map(value(quantity)), {
      meaning:
        "what instance types have beside processors, memory and disk: counts by resource, by a pattern for names of types, see [devices](#gpus-and-other-extended-resources)",
    }),
    privateIPOnly: value(flag, { meaning: "no public addresses", fallback: "`false`" }),
    healthcheck,
    cellConfig,
    standbyCells: list(standbyCell),
    cloudInitFile: value(text, {
      meaning:
        "a [cloud-config](cloud-init.md) that each cell applies before its pod starts; a path from the folder of `provider.yaml` on",
    }),
    itzo: section(
      { version: value(text), url: value(url) },
      { replacedBy: "the agent is part of the cell image, `cells.bootImageSpec`" },
    ),
    extraCIDRs: list(value(cidr), {
      meaning:
        "AWS: ranges besides those of the VPC that the cells' security group lets in, and [that pods reach by their own addresses](aws.md#the-internet); other clouds have no such group",
      reload: "restart",
    }),
    extraSecurityGroups: list(value(text), {
      meaning: "AWS: IDs of security groups that cells have besides Kip's own",
      reload: "restart",
    }),
    statusInterval: value(integer(0), {
      replacedBy: "agents report each change at once, nothing is polled",
    }),
    defaultIAMPermissions: value(instanceProfile, {
      meaning:
        "AWS: name or ARN of the [instance profile](aws.md#instance-profiles) of cells, so what their pods may do at AWS, unless a pod names another one; other clouds have none",
    }),
    useCloudParameterStore: value(flag, {
      replacedBy:
        'user data holds the identity of its own cell alone; all other secrets are sent over the agent\'s connection. Why there are no parameters is in docs/aws.md, "No parameter store"',
    }),
  },
  { reload: "live" },
);
