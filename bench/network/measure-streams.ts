import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { Namespace, untilDeath } from "./namespace.ts";

/** The endpoint that {@link addEndpoint} creates in a neighbouring namespace: a server with two addresses. */
export const streamEndpoint = { address: "10.9.0.2", other: "10.9.0.3", port: 9000 } as const;

const program = path.join(import.meta.dirname, "stream.ts");

/** Results of a connection through a Service relative to a direct connection. 1 means equal. */
export interface StreamRatios {
  /** Throughput of one connection. Higher is better. */
  readonly throughput: number;
  /** Time of a connection with one request. Lower is better. */
  readonly latency: number;
}

/** Adds a neighbouring namespace with the endpoint. */
export async function addEndpoint(namespace: Namespace): Promise<Namespace> {
  const other = await Namespace.open();
  const { prefix } = other;
  const lines = [
    `link add stream type veth peer name eth0 netns ${prefix[2]}`,
    "addr add 10.9.0.1/24 dev stream",
    "link set stream up",
    "route add default via 10.9.0.2",
  ];
  await namespace.run("ip", ["-batch", "-"], `${lines.join("\n")}\n`);
  const { address, other: second, port } = streamEndpoint;
  const own = [
    ...[address, second].map((one) => `addr add ${one}/24 dev eth0`),
    "link set eth0 up",
  ];
  await other.run("ip", ["-batch", "-"], `${own.join("\n")}\n`);
  const [first, ...words] = [...prefix, "setpriv", ...untilDeath, process.execPath];
  const serve = [program, "serve", "0.0.0.0", String(port)];
  const server = spawn(first, [...words, ...serve], { stdio: ["ignore", "pipe", "inherit"] });
  await once(server.stdout, "data");
  // Otherwise this process would not end before the server.
  server.stdout.destroy();
  server.unref();
  return other;
}

/** Makes a namespace report which address of the endpoint answers at a ClusterIP, see {@link Namespace.watch}. */
export async function watchAnswers(
  namespace: Namespace,
  clusterIp: string,
  limitMs: number,
): Promise<boolean> {
  return await namespace.watch([process.execPath, program, "watch", clusterIp, "80"], limitMs);
}

/**
 * Compares connections to a ClusterIP with direct ones, alternately.
 *
 * @param clusterIp undefined compares direct connections with each other, which shows the effect of other work on the machine
 */
export async function measureStreams(
  namespace: Namespace,
  clusterIp: string | undefined,
): Promise<StreamRatios> {
  const { address, port } = streamEndpoint;
  const direct = [address, String(port)];
  const words = [program, "compare", ...direct, ...(clusterIp ? [clusterIp, "80"] : direct)];
  return JSON.parse(await namespace.run(process.execPath, words)) as StreamRatios; // in the format of stream.ts
}
