import { parseQuantity } from "@kip/base";
import { isExtendedResource } from "../selection/extended-resources.ts";
import type { KeyNote, KeyPath } from "./keys/read-keys.ts";
import type { ProviderDocument } from "./provider-config.ts";

/** Problems between keys of a configuration, each of which is valid on its own. */
export function conflicts(document: ProviderDocument): readonly KeyNote[] {
  return checks.flatMap((check) => check(document));
}

/** Notices on keys that the configured cloud does not have. */
export function withoutEffect({ cloud, cells = {} }: ProviderDocument): readonly KeyNote[] {
  if (!cloud?.local) return [];
  const names = ["extraCIDRs", "extraSecurityGroups", "defaultIAMPermissions"] as const;
  return names
    .filter((name) => cells[name] !== undefined)
    .map((name) => note(["cells", name], "it has no effect with cloud.local, but with cloud.aws"));
}

type Check = (document: ProviderDocument) => readonly KeyNote[];

const oneCloud: Check = ({ cloud }) => {
  if (!cloud) return [];
  const names = Object.keys(cloud);
  if (names.length === 1) return [];
  const remedy = "Give exactly one of cloud.local, cloud.aws, cloud.gce and cloud.azure";
  if (names.length === 0) return [note(["cloud"], "it has no section", remedy)];
  return names
    .slice(1)
    .map((name) => note(["cloud", name], `there is cloud.${names[0]} already`, remedy));
};

const awsKeyPair: Check = ({ cloud }) =>
  bothOrNeither(["cloud", "aws"], cloud?.aws, "accessKeyID", "secretAccessKey");

const awsTls: Check = ({ cloud }) => {
  const { insecureTLSSkipVerify, endpointURL } = cloud?.aws ?? {};
  if (insecureTLSSkipVerify !== true || endpointURL !== undefined) return [];
  const message = "it needs cloud.aws.endpointURL: AWS' own API has valid certificates";
  return [note(["cloud", "aws", "insecureTLSSkipVerify"], message)];
};

const awsSubnets: Check = ({ cloud }) => {
  const { subnetID, subnetIDs } = cloud?.aws ?? {};
  if (subnetID === undefined || subnetIDs === undefined) return [];
  const remedy = "Write all subnets in cloud.aws.subnetIDs";
  return [note(["cloud", "aws", "subnetID"], "cloud.aws.subnetIDs is given, too", remedy)];
};

/** The keys of an image, by cloud. */
const imageKeys = {
  aws: {
    of: "images of AWS",
    keys: ["imageIDs", "owners", "executableUsers", "filters", "name"],
  },
  local: { of: "images of the local cloud", keys: ["id", "name"] },
} as const;

const images: Check = ({ cloud, cells }) => {
  const { of, keys } = (cloud?.aws && imageKeys.aws) ?? (cloud?.local && imageKeys.local) ?? {};
  if (!keys) return [];
  const known: readonly string[] = keys;
  const specs: readonly (readonly [KeyPath, Readonly<Record<string, string>>])[] = [
    [["cells", "bootImageSpec"], cells?.bootImageSpec ?? {}],
    ...Object.entries(cells?.bootImages ?? {}).map(
      ([name, spec]) => [["cells", "bootImages", name], spec] as const,
    ),
  ];
  return specs.flatMap(([path, spec]) =>
    Object.keys(spec)
      .filter((key) => !known.includes(key))
      .map((key) => note([...path, key], `${of} have no such key`, `Use ${known.join(", ")}`)),
  );
};

const azureNetwork: Check = ({ cloud }) =>
  bothOrNeither(["cloud", "azure"], cloud?.azure, "virtualNetworkName", "subnetName");

const gceCredentials: Check = ({ cloud }) => {
  const { credentials, credentialsFile, projectID } = cloud?.gce ?? {};
  if (!credentials) return [];
  const place = ["cloud", "gce", "credentials"];
  return [
    ...(credentialsFile === undefined
      ? []
      : [note(place, "cloud.gce.credentialsFile is given, too", "Keep one of them")]),
    ...(projectID === undefined ? [note(place, "it needs cloud.gce.projectID")] : []),
  ];
};

const healthcheck: Check = ({ cells }) => {
  const { status, cloudAPI } = cells?.healthcheck ?? {};
  if (!status || !cloudAPI) return [];
  const message = "cells.healthcheck.status is given, too";
  return [note(["cells", "healthcheck", "cloudAPI"], message, "Keep cells.healthcheck.status")];
};

const standbyCells: Check = ({ cells }) =>
  (cells?.standbyCells ?? []).flatMap(({ instanceType, spot, dedicated, bootImage }, index) => {
    const path = ["cells", "standbyCells", index] as const;
    const notes: KeyNote[] = [];
    if (instanceType?.includes("*") === true)
      notes.push(note([...path, "instanceType"], "a pattern does not say which type to start"));
    if (spot === true && dedicated === true)
      notes.push(note(path, "spot and dedicated exclude each other"));
    if (bootImage !== undefined && !Object.hasOwn(cells?.bootImages ?? {}, bootImage))
      notes.push(
        note([...path, "bootImage"], `there is no image "${bootImage}" in cells.bootImages`),
      );
    return notes;
  });

/** The node offers the maximum of each resource: see {@link capacityKeys}. */
const extendedResources: Check = ({ cells }) =>
  Object.entries(cells?.extendedResources ?? {}).flatMap(([pattern, resources]) =>
    Object.entries(resources).flatMap(([name, quantity]) => {
      const path = ["cells", "extendedResources", pattern, name];
      if (isExtendedResource(name) && isQualifiedName(name))
        return isPart(quantity) ? [note(path, notWhole)] : [];
      const message = "an extended resource has a domain in its name, which is not Kubernetes' own";
      return [note(path, message, "Write a name such as example.com/card")];
    }),
  );

const labelName = /^[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/;
const labelDomain =
  /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const notWhole = "it is not a whole number";

function isPart(quantity: string): boolean {
  return !Number.isInteger(parseQuantity(quantity));
}

/** Whether it is a valid key of a label or an extended resource, with or without a domain. */
function isQualifiedName(key: string): boolean {
  const [name = "", domain, ...others] = key.split("/").reverse();
  const isDomain = domain === undefined || labelDomain.test(domain);
  return labelName.test(name) && isDomain && others.length === 0;
}

/** The API server refuses a node with an invalid label. The node would then not exist, or would no longer be updated. */
const nodeLabels: Check = ({ kubelet }) =>
  Object.entries(kubelet?.labels ?? {}).flatMap(([key, text]) => {
    const isKey = isQualifiedName(key);
    const isValue = text === "" || labelName.test(text);
    const shown = isKey ? `"${text.slice(0, 64)}" is not the value` : "this is not the key";
    if (isKey && isValue) return [];
    const remedy = "Write for example example.com/rack: a-1, with at most 63 characters each";
    return [note(["kubelet", "labels", key], `${shown} of a label`, remedy)];
  });

/** In the original, the short key took precedence. Here a difference is reported as a mistake. */
const capacity: Check = ({ kubelet = {} }) =>
  (["cpu", "memory", "pods"] as const).flatMap((name) => {
    const [short, long] = [kubelet[name], kubelet.capacity?.[name]];
    if (short === undefined || long === undefined || parseQuantity(short) === parseQuantity(long))
      return [];
    const message = `it is ${short}, and kubelet.capacity.${name} is ${long}`;
    return [note(["kubelet", name], message, `Keep kubelet.capacity.${name}`)];
  });

/** Kubernetes' own resources of a node, in addition to extended ones. */
const ownResource =
  /^(cpu|memory|pods|ephemeral-storage|hugepages-\d+[KMGT]i|attachable-volumes-.+)$/;

/**
 * Pods can only request resources with these names. The API server refuses a node with a fraction of a countable resource. The
 * node would then not exist, or would no longer be updated.
 */
const capacityKeys: Check = ({ kubelet = {} }) => {
  const { pods, capacity: all = {} } = kubelet;
  const isKnown = (name: string): boolean =>
    ownResource.test(name) || (isExtendedResource(name) && isQualifiedName(name));
  const isCounted = (name: string): boolean => name === "pods" || isExtendedResource(name);
  return [
    ...(pods !== undefined && isPart(pods) ? [note(["kubelet", "pods"], notWhole)] : []),
    ...Object.entries(all).flatMap(([name, quantity]) => {
      const path = ["kubelet", "capacity", name];
      const remedy =
        "Write cpu, memory, pods, ephemeral-storage, hugepages-2Mi or one with a domain, such as example.com/card";
      if (!isKnown(name))
        return [note(path, "pods cannot ask for a resource of this name", remedy)];
      return isCounted(name) && isPart(quantity) ? [note(path, notWhole)] : [];
    }),
  ];
};

const registries: Check = ({ registries: entries = [] }) =>
  entries.flatMap((entry, index) => {
    const at = (key: string): KeyPath => ["registries", index, key];
    const { host, endpoint, insecure, ca, username, password } = entry;
    const first = entries.findIndex((each) => each.host === host);
    return [
      ...(host !== undefined && first < index
        ? [note(at("host"), `"${host}" has an entry already`)]
        : []),
      ...(password !== undefined && username === undefined
        ? [note(at("username"), "there is a password without a user name")]
        : []),
      ...(username !== undefined && password === undefined
        ? [note(at("password"), "there is a user name without a password")]
        : []),
      ...(insecure === true && (endpoint?.startsWith("https:") === true || ca !== undefined)
        ? [
            note(
              at("insecure"),
              "a registry without TLS has no https endpoint and no certificates",
              "Remove insecure; a certificate of your own goes into ca",
            ),
          ]
        : []),
    ];
  });

const cache: Check = ({ images, cells }) => {
  const own = images?.cache;
  if (!own) return [];
  const place = ["images", "cache"];
  const { nfs, path, options = [] } = own;
  return [
    ...(cells?.cellConfig?.imageCacheEndpoint === undefined
      ? []
      : [note(place, "cells.cellConfig.imageCacheEndpoint sets the same", "Keep images.cache")]),
    ...(nfs === undefined && path === undefined
      ? [note(place, "neither nfs nor path is given")]
      : []),
    ...(nfs === undefined && options.length > 0
      ? [note([...place, "options"], "they need images.cache.nfs, which is missing")]
      : []),
  ];
};

const checks: readonly Check[] = [
  oneCloud,
  awsKeyPair,
  awsTls,
  awsSubnets,
  images,
  gceCredentials,
  azureNetwork,
  healthcheck,
  standbyCells,
  extendedResources,
  nodeLabels,
  capacity,
  capacityKeys,
  registries,
  cache,
];

/** Requires that both or neither of two keys of a section are set. */
function bothOrNeither(
  place: KeyPath,
  section: Readonly<Record<string, unknown>> | undefined,
  ...names: readonly [string, string]
): readonly KeyNote[] {
  if (!section) return [];
  const [missing] = names.filter((name) => section[name] === undefined);
  const [given] = names.filter((name) => section[name] !== undefined);
  if (missing === undefined || given === undefined) return [];
  return [note([...place, given], `it needs ${place.join(".")}.${missing}`)];
}

function note(path: KeyPath, message: string, remedy?: string): KeyNote {
  return { path, message, remedy };
}
