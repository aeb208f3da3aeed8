import os from "node:os";
import path from "node:path";
import type { CloudDriver } from "@kip/cloud";
import { openAwsCloud, type AwsCloudOptions } from "../../src/index.ts";
import { Ec2Proxy } from "../../src/emulator/ec2-proxy.ts";
import type { Ec2Delays } from "../../src/emulator/ec2-states.ts";
import type { Machines } from "../../src/emulator/machines.ts";
import { startMoto } from "../../src/emulator/moto-server.ts";
import { itemsOf, parseXml, textOf } from "../../src/emulator/xml.ts";

/** moto behind the proxy, with an image, a subnet and drivers. */
export interface TestEc2 extends AsyncDisposable {
  readonly proxy: Ec2Proxy;
  readonly image: string;
  readonly subnetId: string;
  /** Where the proxy listens, on loopback. */
  readonly endpointURL: string;
  /** moto itself, which also serves its other APIs. */
  readonly motoURL: string;
  /** Number of instances in moto with a launch's token that have not ended. */
  countOf(token: string): Promise<number>;
  open(changes?: Partial<AwsCloudOptions>): Promise<CloudDriver>;
}

/** Credentials that only moto accepts. */
const credentials = { accessKeyId: "test", secretAccessKey: "test" };

/**
 * @param delays of the proxy, milliseconds
 * @param machines machines for its instances; without it, they are only moto's entries
 */
export async function openTestEc2(
  delays: Partial<Ec2Delays> = {},
  machines?: Machines,
): Promise<TestEc2> {
  const stack = new AsyncDisposableStack();
  const moto = stack.use(await startMoto({ cacheDir: ownCache() }));
  const proxy = stack.use(new Ec2Proxy(moto.url, delays, machines));
  const endpointURL = await proxy.start();
  const subnets = parseXml((await proxy.ask("DescribeSubnets")).body);
  const subnetId = textOf(itemsOf(subnets, "subnetSet")[0], "subnetId");
  const registered = await proxy.ask("RegisterImage", {
    Name: "kip-cell-test",
    Architecture: "x86_64",
    RootDeviceName: "/dev/xvda",
  });
  const image = textOf(parseXml(registered.body), "imageId");
  return {
    proxy,
    image,
    subnetId,
    endpointURL,
    motoURL: moto.url,
    countOf: async (token) => {
      const { body } = await proxy.ask("DescribeInstances", {
        "Filter.1.Name": "tag:Node",
        "Filter.1.Value.1": token,
        "Filter.2.Name": "instance-state-name",
        "Filter.2.Value.1": "pending",
        "Filter.2.Value.2": "running",
      });
      const reservations = itemsOf(parseXml(body), "reservationSet");
      return reservations.flatMap((each) => itemsOf(each, "instancesSet")).length;
    },
    open: async (changes) =>
      await openAwsCloud({
        sourceDestCheck: false, // all calls are made
        owner: "tests",
        region: "us-east-1",
        credentials,
        endpointURL,
        subnetID: subnetId,
        times: { pollMs: 50, endsMs: 200, batchMs: 2, consistencyMs: 5000, hostAgeMs: 0 },
        ...changes,
      }),
    [Symbol.asyncDispose]: async () => await stack.disposeAsync(),
  };
}

function ownCache(): string {
  return path.join(process.env["XDG_CACHE_HOME"] ?? path.join(os.homedir(), ".cache"), "kip");
}
