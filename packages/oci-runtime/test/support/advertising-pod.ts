// Runs in its own network and mount namespaces. Sets up a pod's network as a cell does, with IPv6 if the argument requests it.
// A process in the pod that only has NET_RAW advertises itself as a router, and then a neighbour of the cell does. Prints, one
// line each, the cell's routers, the IPv6 address of its end of the cable, and the source of an IPv6 connection to it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { runCommand } from "@kip/base";
import { eventually } from "@kip/testing";
import type { PodNetwork } from "../../src/sandbox/pod-network.ts";
import { PreparedSandbox } from "../../src/sandbox/prepared-sandbox.ts";
import { sandboxFiles } from "../../src/sandbox/sandbox-files.ts";

const [family, isKnown] = process.argv.slice(2);
const hasIpv6 = family === "ipv6";
const network: PodNetwork = {
  podIp: "192.0.2.2",
  hostInterface: "eth0",
  cable: "kip-pod",
  mtu: 1500,
  ...(hasIpv6 && { ipv6: { podIp: "fd00::a:2", machineIp: "fd00::a:1" } }),
};

/** Sends a router's advertisement (RFC 4861, 4.2) with the highest preference (RFC 4191, 2.2) to all nodes of an interface's link. */
const advertise = `
use Socket qw(:all);
socket(my $socket, AF_INET6, SOCK_RAW, 58) or die $!;
setsockopt($socket, 41, 18, pack("i", 255)) or die $!;
my $prefix = pack("CCCCNNN", 3, 4, 64, 0xc0, 86400, 86400, 0) . inet_pton(AF_INET6, "2001:db8:bad::");
bind($socket, pack_sockaddr_in6(0, inet_pton(AF_INET6, $ARGV[1]), $ARGV[0])) or die $!;
send($socket, pack("CCnCCnNN", 134, 0, 0, $ARGV[2], 8, 1800, 0, 0) . $prefix, 0,
  pack_sockaddr_in6(0, inet_pton(AF_INET6, "ff02::1"), $ARGV[0])) or die $!;`;

const ip = async (...args: readonly string[]): Promise<string> =>
  (await runCommand("/usr/sbin/ip", args)).stdout.trim().replaceAll(/\s+/g, " ");
const lines = async (...commands: readonly string[]): Promise<void> =>
  void (await runCommand("/usr/sbin/ip", ["-batch", "-"], { input: `${commands.join("\n")}\n` }));
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const routers = async (): Promise<string> => await ip("-6", "route", "show", "default");

/**
 * Runs the advertiser in this network namespace, with no other right than NET_RAW, from its own address. The advertiser chooses
 * the packets' hop limit.
 */
async function advertiseIn(net: string, device: string, own: string, hops = 64): Promise<void> {
  const enter = async (...words: readonly string[]): Promise<string> =>
    (await runCommand("/usr/bin/nsenter", [`--net=${net}`, "--", ...words])).stdout;
  await enter("/usr/sbin/ip", "address", "replace", `${own}/64`, "dev", device, "nodad");
  const index = (await enter("/usr/sbin/ip", "-o", "link", "show", device)).split(":", 1)[0] ?? "";
  const rights = ["/usr/bin/setpriv", "--bounding-set", "-all,+net_raw", "--inh-caps", "-all"];
  await enter(...rights, "perl", "-e", advertise, index, own, `${hops}`);
}

/** The source address of an IPv6 connection, as seen by the cell. */
async function connectionFrom(net: string): Promise<string> {
  const server = createServer((socket) => socket.end(`${socket.remoteAddress}`));
  await once(server.listen(0, "fd00::a:1"), "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const connect = `exec 3<>/dev/tcp/fd00::a:1/${port}; cat <&3`;
  const words = [`--net=${net}`, "--", "bash", "-c", connect];
  const { stdout } = await runCommand("/usr/bin/nsenter", words);
  server.close();
  return stdout;
}

const router = spawn("/usr/bin/unshare", ["--net", "--kill-child", "sh", "-c", "echo; read line"]);
try {
  await once(router.stdout, "data"); // it has entered its namespace
  for (const folder of ["/run", "/dev/shm"])
    await runCommand("/usr/bin/mount", ["-t", "tmpfs", "tmpfs", folder]);
  const neighbour = `/proc/${router.pid}/ns/net`;
  await lines(
    `link add eth0 type veth peer name router netns ${router.pid}`,
    "address add 192.0.2.1/24 dev eth0",
    "link set eth0 up",
  );
  await runCommand("/usr/bin/nsenter", `--net=${neighbour} -- ip link set router up`.split(" "));
  const beRouter = async (hops: number): Promise<void> => {
    await advertiseIn(neighbour, "router", "fe80::900d", hops);
    await eventually(async () => (await routers()).includes(`hoplimit ${hops}`));
  };
  if (isKnown === "known") await beRouter(61);
  const files = sandboxFiles("/run/pods", "pod");
  await (await PreparedSandbox.make("pod", files)).finish(network);
  await advertiseIn(files.net, "eth0", "fe80::bad");
  await beRouter(62);
  if (hasIpv6) await advertiseIn(neighbour, "router", "fe80::5bad");
  await beRouter(63); // after the other router's, on the same link
  say(`routers ${await routers()}`);
  say(`cable ${await ip("-6", "-brief", "address", "show", "dev", "kip-pod")}`);
  if (hasIpv6) say(`connection ${await connectionFrom(files.net)}`);
} finally {
  router.kill("SIGKILL");
}
