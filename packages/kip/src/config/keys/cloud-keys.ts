import { section, list, value } from "./key.ts";
import {
  absolutePath,
  address,
  cidr,
  cidrOf,
  flag,
  integer,
  ipv4Address,
  oneOf,
  secretText,
  text,
  textWhich,
  url,
} from "./kinds.ts";

/** It is part of the names of devices, which have at most 15 characters. */
const namespace = textWhich(
  "a name of 1 to 11 lower-case letters, digits and dashes, with a letter first",
  (name) => /^[a-z][a-z0-9-]{0,10}$/.test(name),
  "kip",
);

const local = section(
  {
    stateDir: value(absolutePath, {
      meaning: "folder for the state of the machines",
      fallback: "`/var/lib/kip/cells`",
    }),
    imagesDir: value(absolutePath, {
      meaning: "folder of cell images",
      fallback: "`/var/cache/kip/images`",
    }),
    namespace: value(namespace, {
      meaning: "network namespace of the machines",
      fallback: "`kip`",
    }),
    range: value(cidrOf(4, 8, 22, "198.18.0.0/15"), {
      meaning: "IPv4 range of cells and pods, /8 to /22",
      fallback: "`198.18.0.0/15`",
    }),
    ipv6Range: value(cidrOf(6, 16, 100, "fd00:6b69:7000::/48"), {
      meaning:
        "range of further IPv6 addresses of cells and pods, /16 to /100. See [networking](networking.md#ipv6)",
    }),
    architectures: list(value(oneOf("amd64", "arm64")), {
      meaning:
        "processor architectures of cells. Those that differ from this computer's are [emulated](local-cloud.md#arm64)",
      fallback: "that of this computer",
    }),
    internet: value(oneOf("auto", "off"), {
      meaning: "with `off`, pods reach nothing beyond the host's end of their network",
      fallback: "`auto`",
    }),
    hostPorts: list(value(integer(1, 65_535)), {
      meaning: "TCP ports of the host that pods can reach",
    }),
    serviceRanges: list(value(cidr), {
      meaning:
        "IPv4 and IPv6 ranges of the cluster's Services. Cells translate these addresses to endpoints. No packet to them leaves the network of the machines",
      fallback: "`[10.96.0.0/16]`",
    }),
    hostServices: value(flag, {
      meaning:
        "whether this computer reaches Services. Adds a route to these ranges, and rules in the namespace",
      fallback: "`false`",
    }),
    nodePortAddresses: list(value(ipv4Address), {
      meaning:
        "IPv4 addresses of this computer at which NodePorts answer while kip runs, in addition to its address in the range. `0.0.0.0` means all. `kip up` uses `127.0.0.1`",
    }),
    dnsService: value(address, { meaning: "ClusterIP of the name server that `kip up` runs" }),
    templates: value(flag, {
      meaning:
        "with `false`, every cell boots instead of [starting as a copy](local-cloud.md#copies-instead-of-boots)",
      fallback: "`true`",
    }),
    templatesDir: value(absolutePath, {
      meaning: "folder of templates",
      fallback: "`templates` in the state folder",
    }),
    faultInjection: value(flag, {
      meaning: "whether [`kip local`](local-cloud.md#faults-on-demand) can cause faults",
      fallback: "`false`",
    }),
  },
  { meaning: "machines on the computer that kip runs on" },
);

/** Includes GovCloud, isolated partitions and the European one, which the original refused. */
const awsRegion = textWhich(
  "a region of AWS",
  (name) => /^[a-z]{2,4}(-[a-z]+){1,3}-\d{1,2}$/.test(name),
  "us-east-1",
);

const aws = section(
  {
    region: value(awsRegion, {
      meaning:
        "region. `AWS_DEFAULT_REGION` and `AWS_REGION` take precedence. Without any of them, the instance's metadata is used",
    }),
    accessKeyID: value(secretText, { meaning: "access key. `AWS_ACCESS_KEY_ID` takes precedence" }),
    secretAccessKey: value(secretText, {
      meaning: "secret of the key. `AWS_SECRET_ACCESS_KEY` takes precedence",
    }),
    vpcID: value(text, {
      meaning: "VPC of the cells. `default` means the account's default VPC",
      fallback: "that of kip's machine",
    }),
    subnetID: value(text, { meaning: "subnet of the cells", fallback: "that of kip's machine" }),
    subnetIDs: list(value(text), {
      meaning:
        "[several subnets](aws.md#several-subnets-and-zones) of one VPC, instead of `subnetID`. The preferred zone comes first",
    }),
    interruptionQueueURL: value(url, {
      meaning:
        "URL of the SQS queue to which EventBridge sends [notices of interruptions](aws.md#notices-of-interruptions)",
      fallback:
        "none. Notices come only [through the instance](aws.md#spot-instances-that-are-taken-back)",
    }),
    ecsClusterName: value(text, {
      replacedBy: "cells are EC2 instances. The original did not use ECS either",
    }),
    endpointURL: value(url, { meaning: "for tests: URL of the EC2 API" }),
    podRoutes: value(flag, {
      meaning:
        "whether `pod.elotl.co/cloud-route` may make the VPC [route address ranges to a pod](aws.md#routes-to-a-pod)",
      fallback: "`false`",
    }),
    dedicatedHosts: value(flag, {
      meaning:
        "whether pods with `pod.elotl.co/launch-type: dedicated` get [dedicated hosts](aws.md#dedicated-hosts) instead of dedicated tenancy. Kip allocates and releases the hosts",
      fallback: "`false`",
    }),
    ipv6: value(flag, {
      meaning:
        "whether cells and pods also get [IPv6 addresses](aws.md#ipv6), in subnets that have an IPv6 range",
      fallback: "`false`",
    }),
    sourceDestCheck: value(flag, {
      meaning: "whether EC2 drops packets that a cell sends from addresses that are not its own",
      fallback: "`true`",
    }),
    insecureTLSSkipVerify: value(flag, {
      meaning: "for tests: whether to skip the verification of the API's certificate",
      fallback: "`false`",
    }),
  },
  { meaning: "Amazon EC2" },
);

const gce = section(
  {
    projectID: value(text, {
      meaning: "project. Without it, `GOOGLE_CLOUD_PROJECT` or the instance's metadata is used",
    }),
    credentials: section(
      {
        clientEmail: value(text, { meaning: "service account. Needs `projectID`" }),
        privateKey: value(secretText, { meaning: "private key of the service account" }),
      },
      { required: ["clientEmail", "privateKey"] },
    ),
    credentialsFile: value(absolutePath, {
      meaning: "credentials file of a service account, instead of `credentials`",
      fallback: "application default credentials",
    }),
    zone: value(
      textWhich(
        "a zone of Google Cloud",
        (name) => /^[a-z]+-[a-z]+\d+-[a-z]$/.test(name),
        "us-west1-a",
      ),
      { meaning: "zone of the cells", fallback: "that of kip's machine" },
    ),
    vpcName: value(text, { meaning: "network of the cells", fallback: "that of kip's machine" }),
    subnetName: value(text, { meaning: "subnet of the cells", fallback: "that of kip's machine" }),
  },
  { meaning: "Google Compute Engine" },
);

const azure = section(
  {
    subscriptionID: value(text, { meaning: "subscription" }),
    location: value(text, { meaning: 'display name of the location, such as "East US"' }),
    resourceGroup: value(text, { meaning: "resource group of the cells' network" }),
    tenantID: value(text, { meaning: "tenant. `AZURE_TENANT_ID` takes precedence" }),
    clientID: value(text, { meaning: "application. `AZURE_CLIENT_ID` takes precedence" }),
    clientSecret: value(secretText, {
      meaning: "secret of the application. `AZURE_CLIENT_SECRET` takes precedence",
    }),
    virtualNetworkName: value(text, { meaning: "network of the cells, with `subnetName`" }),
    subnetName: value(text, { meaning: "subnet of the cells, with `virtualNetworkName`" }),
  },
  {
    meaning: "Microsoft Azure",
    required: ["subscriptionID", "location", "resourceGroup"],
  },
);

/** The section `cloud`. */
export const cloudKeys = section({ local, aws, gce, azure }, { isChoice: true, reload: "restart" });
