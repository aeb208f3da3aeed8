import { section, list, value } from "./key.ts";
import {
  absolutePath,
  address,
  cidr,
  flag,
  integer,
  oneOf,
  secretText,
  text,
  textWhich,
  url,
} from "./kinds.ts";

const local = section(
  {
    stateDir: value(text, { meaning: "folder of the machines", fallback: "`/var/lib/kip/cells`" }),
    imagesDir: value(text, {
      meaning: "folder of cell images",
      fallback: "`/var/cache/kip/images`",
    }),
    namespace: value(text, { meaning: "network namespace of the machines", fallback: "`kip`" }),
    range: value(cidr, { meaning: "addresses of cells and pods", fallback: "`198.18.0.0/15`" }),
    ipv6Range: value(cidr, {
      meaning:
        "IPv6 addresses of cells and pods, besides, /16 to /100 ([networking](networking.md#ipv6))",
    }),
    architectures: list(value(oneOf("amd64", "arm64")), {
      meaning:
        "processors of cells; others than this computer's are [emulated](local-cloud.md#arm64)",
      fallback: "that of this computer",
    }),
    internet: value(oneOf("auto", "off"), {
      meaning: "`off`: pods reach nothing beyond the host's end of their network",
      fallback: "`auto`",
    }),
    hostPorts: list(value(integer(1, 65_535)), {
      meaning: "TCP ports of the host that pods reach",
    }),
    serviceRanges: list(value(cidr), {
      meaning:
        "the cluster's Services, ranges of IPv4 and IPv6: cells lead to their endpoints, and no packet to them leaves the machines' network",
      fallback: "`[10.96.0.0/16]`",
    }),
    hostServices: value(flag, {
      meaning:
        "whether this computer reaches Services: a route to these ranges, and rules in the namespace",
      fallback: "`false`",
    }),
    nodePortAddresses: list(value(address), {
      meaning:
        "IPv4 addresses of this computer at which NodePorts answer while kip runs, and at its address in the range; `0.0.0.0`: all. `kip up` has `127.0.0.1`",
    }),
    dnsService: value(address, { meaning: "the ClusterIP of the name server that `kip up` runs" }),
    templates: value(flag, {
      meaning:
        "`false`: every cell boots instead of being a copy ([local cloud](local-cloud.md#copies-instead-of-boots))",
      fallback: "`true`",
    }),
    templatesDir: value(text, {
      meaning: "folder of the templates",
      fallback: "`templates` in the state folder",
    }),
    faultInjection: value(flag, {
      meaning: "whether [`kip local`](local-cloud.md#faults-on-demand) can cause faults",
      fallback: "`false`",
    }),
  },
  { meaning: "machines on the computer that kip runs on" },
);

/** Also those of GovCloud, isolated partitions and the European one, which the original refused. */
const awsRegion = textWhich(
  "a region of AWS",
  (name) => /^[a-z]{2,4}(-[a-z]+){1,3}-\d{1,2}$/.test(name),
  "us-east-1",
);

const aws = section(
  {
    region: value(awsRegion, {
      meaning:
        "region; `AWS_DEFAULT_REGION` and `AWS_REGION` come first, the instance's metadata last",
    }),
    accessKeyID: value(secretText, { meaning: "key, behind `AWS_ACCESS_KEY_ID`" }),
    secretAccessKey: value(secretText, { meaning: "its secret, behind `AWS_SECRET_ACCESS_KEY`" }),
    vpcID: value(text, {
      meaning: "VPC of the cells; `default`: that of the account",
      fallback: "that of kip's machine",
    }),
    subnetID: value(text, { meaning: "subnet of the cells", fallback: "that of kip's machine" }),
    subnetIDs: list(value(text), {
      meaning:
        "several subnets of one VPC in place of `subnetID`, the preferred zone first ([AWS](aws.md#several-subnets-and-zones))",
    }),
    interruptionQueueURL: value(url, {
      meaning:
        "URL of a queue of SQS that EventBridge sends notices of interruptions to ([AWS](aws.md#notices-of-interruptions))",
      fallback: "none: spot instances end without notice",
    }),
    ecsClusterName: value(text, {
      replacedBy: "cells are EC2 instances; the original called nothing of ECS either",
    }),
    endpointURL: value(url, { meaning: "URL of the EC2 API, for tests" }),
    podRoutes: value(flag, {
      meaning:
        "whether pods may have the VPC lead ranges of addresses to them by `pod.elotl.co/cloud-route` ([AWS](aws.md#routes-to-a-pod))",
      fallback: "`false`",
    }),
    dedicatedHosts: value(flag, {
      meaning:
        "whether pods with `pod.elotl.co/launch-type: dedicated` get dedicated hosts, which kip allocates and gives back, instead of dedicated tenancy ([AWS](aws.md#dedicated-hosts))",
      fallback: "`false`",
    }),
    ipv6: value(flag, {
      meaning:
        "whether cells and pods have addresses of IPv6, besides, in subnets that have a range of it ([AWS](aws.md#ipv6))",
      fallback: "`false`",
    }),
    sourceDestCheck: value(flag, {
      meaning:
        "whether EC2 drops packets of a cell that are from other addresses than its own ([AWS](aws.md))",
      fallback: "`true`",
    }),
    insecureTLSSkipVerify: value(flag, {
      meaning: "whether the API's certificate is not verified, for tests",
      fallback: "`false`",
    }),
  },
  { meaning: "Amazon EC2" },
);

const gce = section(
  {
    projectID: value(text, {
      meaning: "project; `GOOGLE_CLOUD_PROJECT` or the instance's metadata without it",
    }),
    credentials: section(
      {
        clientEmail: value(text, { meaning: "service account; needs `projectID`" }),
        privateKey: value(secretText, { meaning: "its key" }),
      },
      { required: ["clientEmail", "privateKey"] },
    ),
    credentialsFile: value(absolutePath, {
      meaning: "file of a service account, instead of `credentials`",
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
    subnetName: value(text, { meaning: "its subnet", fallback: "that of kip's machine" }),
  },
  { meaning: "Google Compute Engine" },
);

const azure = section(
  {
    subscriptionID: value(text, { meaning: "subscription" }),
    location: value(text, { meaning: 'location, as it is shown: "East US"' }),
    resourceGroup: value(text, { meaning: "resource group of the cells' network" }),
    tenantID: value(text, { meaning: "tenant, behind `AZURE_TENANT_ID`" }),
    clientID: value(text, { meaning: "application, behind `AZURE_CLIENT_ID`" }),
    clientSecret: value(secretText, { meaning: "its secret, behind `AZURE_CLIENT_SECRET`" }),
    virtualNetworkName: value(text, { meaning: "network of the cells, with `subnetName`" }),
    subnetName: value(text, { meaning: "its subnet, with `virtualNetworkName`" }),
  },
  {
    meaning: "Microsoft Azure",
    required: ["subscriptionID", "location", "resourceGroup"],
  },
);

/** The section `cloud`. */
export const cloudKeys = section({ local, aws, gce, azure }, { isChoice: true, reload: "restart" });
