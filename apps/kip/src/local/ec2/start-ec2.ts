import {
  childOf,
  Ec2Proxy,
  MetadataService,
  parseXml,
  startMoto,
  textOf,
} from "@kip/cloud-aws/emulator";
import { createLocalCloud, type LocalCloud, type LocalCloudOptions } from "@kip/cloud-local";
import { withFaultInjection } from "@kip/cloud-local/faults";
import { networkRanges } from "../cluster/network-ranges.ts";
import { markerEnvironment } from "../cluster/processes.ts";
import type { ClusterContext } from "../cluster/cluster-context.ts";
import { KipError } from "../../errors.ts";
import { ec2Offers, ec2Region as region } from "./ec2-offers.ts";
import { MetadataHops } from "./metadata-hops.ts";
import { listenInNamespace } from "./namespace-socket.ts";
import { QemuMachines } from "./qemu-machines.ts";

/** How long a terminated instance is shown, milliseconds. Kip may look 10 s later. EC2 shows it for about an hour. */
const forgetMs = 300_000;
const metadataAddress = "169.254.169.254";

/** Opens the local cloud whose machines serve as EC2 instances. `kip local` can cause faults in it. */
export async function openEc2Cloud(settings: LocalCloudOptions): Promise<LocalCloud> {
  const cloud = await createLocalCloud({
    ...settings,
    metadataAddress,
    instanceTypes: ec2Offers(),
    hostServices: false,
  });
  const { stateDir, logger } = settings;
  return await withFaultInjection(cloud, { stateDir, logger });
}

/** The cloud that kip's provider uses instead of the local one. */
export interface CloudChoice {
  /** The section `cloud` of its `provider.yaml`. */
  readonly cloud: { readonly aws: Readonly<Record<string, string>> };
  readonly environment: NodeJS.ProcessEnv;
}

/** EC2 on this computer. */
export interface LocalEc2 extends AsyncDisposable {
  readonly settings: CloudChoice;
}

/**
 * Starts moto, a proxy that starts a machine of the local cloud for each of its instances, and their metadata service. moto
 * keeps its instances in memory. So machines of an earlier run are ended, as they no longer have an instance.
 *
 * @throws {KipError} `LOCAL_CLUSTER_FAILED`; errors of {@link startMoto}
 */
export async function startEc2(
  { options, layout, logger }: ClusterContext,
  cloud: LocalCloud,
): Promise<LocalEc2> {
  await using stack = new AsyncDisposableStack();
  await cloud.terminateAll();
  const environment = markerEnvironment();
  const moto = stack.use(await startMoto({ cacheDir: layout.motoDir, environment }));
  const { namespaceFile } = await cloud.clusterDns();
  const hops = new MetadataHops(namespaceFile, metadataAddress);
  await hops.prepare();
  const metadata = new MetadataService();
  const port = 80;
  const socket = await listenInNamespace({ namespaceFile, address: metadataAddress, port });
  metadata.server.listen(socket);
  stack.defer(() => {
    metadata.server.closeAllConnections();
    metadata.server.close();
  });
  const image = options.required("image");
  const zone = `${region}a`;
  const machines = new QemuMachines({ cloud, image, region, zone, metadata, hops });
  const proxy = stack.use(new Ec2Proxy(moto.url, { forgetMs }, machines));
  const endpointURL = await proxy.start();
  const subnetID = await makeNetwork(proxy, networkRanges(options).range, zone);
  await proxy.ask("RegisterImage", {
    Name: `kip-cell-${image}`,
    Architecture: "x86_64",
    RootDeviceName: "/dev/xvda",
  });
  logger.info("Started EC2 on this computer", { endpointURL, subnetID });
  const disposer = stack.move();
  return {
    settings: {
      // Only moto accepts these credentials.
      cloud: {
        aws: { region, subnetID, endpointURL, accessKeyID: "local", secretAccessKey: "local" },
      },
      environment: { AWS_ENDPOINT_URL_ECR: endpointURL },
    },
    [Symbol.asyncDispose]: async () => await disposer.disposeAsync(),
  };
}

/** Creates a VPC with one subnet, both with the machines' range. @returns the subnet's ID */
async function makeNetwork(proxy: Ec2Proxy, range: string, zone: string): Promise<string> {
  const vpc = await proxy.ask("CreateVpc", { CidrBlock: range });
  const vpcId = textOf(childOf(parseXml(vpc.body), "vpc"), "vpcId");
  const subnet = await proxy.ask("CreateSubnet", {
    VpcId: vpcId,
    CidrBlock: range,
    AvailabilityZone: zone,
  });
  const subnetId = textOf(childOf(parseXml(subnet.body), "subnet"), "subnetId");
  if (subnetId !== "") return subnetId;
  const message = `Cannot make a subnet ${range}: ${vpc.body} ${subnet.body}`.slice(0, 500);
  throw new KipError("LOCAL_CLUSTER_FAILED", message, {
    remedy: "Give --network-range a range of /16 to /22, as VPCs have: 198.18.0.0/16",
  });
}
