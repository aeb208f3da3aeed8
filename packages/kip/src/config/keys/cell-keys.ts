import { list, map, section, value } from "./key.ts";
import {
  cachePath,
  cidr,
  dnsLabel,
  flag,
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
    instanceType: value(instanceType),
    count: value(integer(0)),
    spot: value(flag),
    dedicated: value(flag),
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
  cloudAPI: section(
    { healthyTimeout: value(seconds), interval: value(integer(10)) },
    {
      replacedBy:
        "the cloud reports the end of an instance by itself; `cells.healthcheck.status.healthyTimeout` limits how long an agent may be out of reach",
    },
  ),
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
    standbyCells: list(standbyCell, {
      replacedBy: "there are no warm cells yet; every cell is started for its pod",
    }),
    cloudInitFile: value(text, {
      replacedBy:
        "cells boot their image as it is; build what they need into [an image](cell-image.md) and name it in `cells.bootImageSpec`",
    }),
    itzo: section(
      { version: value(text), url: value(url) },
      { replacedBy: "the agent is part of the cell image, `cells.bootImageSpec`" },
    ),
    extraCIDRs: list(value(cidr), {
      meaning:
        "AWS: ranges besides those of the VPC that the cells' security group lets in; other clouds have no such group",
      reload: "restart",
    }),
    extraSecurityGroups: list(value(text), {
      meaning: "AWS: IDs of security groups that cells have besides Kip's own",
      reload: "restart",
    }),
    statusInterval: value(integer(0), {
      replacedBy: "agents report each change at once, nothing is polled",
    }),
    defaultIAMPermissions: value(text, {
      replacedBy: "the local cloud has no instance profiles",
    }),
    useCloudParameterStore: value(flag, {
      replacedBy:
        "user data holds the identity of its own cell alone; all other secrets are sent over the agent's connection",
    }),
  },
  { reload: "live" },
);
