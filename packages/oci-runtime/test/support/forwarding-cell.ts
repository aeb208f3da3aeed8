// Runs in its own network namespace. Creates a router that advertises itself, and forwards as a cell does. Prints, one line
// each, what is known about the router: before forwarding, while the cell forwards, and after the first advertisement that
// follows the router's removal.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { runCommand } from "@kip/base";
import { eventually } from "@kip/testing";
import { allowForwarding, outerCommands, type PodNetwork } from "../../src/sandbox/pod-network.ts";

const network: PodNetwork = {
  podIp: "192.0.2.2",
  hostInterface: "eth0",
  cable: "kip-pod",
  mtu: 1500,
  ipv6: { podIp: "fd00::a:2", machineIp: "fd00::a:1" },
};

/** Sends a router's advertisement (RFC 4861, 4.2) twice a second to all nodes of the interface with this index. */
const advertise = `
use Socket qw(:all);
socket(my $socket, AF_INET6, SOCK_RAW, 58) or die $!;
setsockopt($socket, 41, 18, pack("i", 255)) or die $!;
while (1) {
  send($socket, pack("CCnCCnNN", 134, 0, 0, 64, 0, 1800, 0, 0), 0,
    pack_sockaddr_in6(0, inet_pton(AF_INET6, "ff02::1"), $ARGV[0]));
  select(undef, undef, undef, 0.5);
}`;

const lines = async (...commands: readonly string[]): Promise<void> =>
  void (await runCommand("/usr/sbin/ip", ["-batch", "-"], { input: `${commands.join("\n")}\n` }));
const ip = async (...args: readonly string[]): Promise<string> =>
  (await runCommand("/usr/sbin/ip", args)).stdout.trim().replaceAll(/\s+/g, " ");
const routers = async (): Promise<string> => await ip("-6", "route", "show", "default");
const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Waits for its interface. */
const beginRouter = `echo ready; read line; ip link set router up
exec perl -e "$0" "$(ip -o link show router | cut -d: -f1)"`;

const router = spawn("/usr/bin/unshare", [
  "--net",
  "--kill-child",
  "sh",
  "-c",
  beginRouter,
  advertise,
]);
try {
  await once(router.stdout, "data"); // it has entered its namespace
  await lines(
    `link add eth0 type veth peer name router netns ${router.pid}`,
    "link add kip-pod type veth peer name inside",
    "link set kip-pod up",
    "link set eth0 up",
  );
  router.stdin.end("\n");
  await eventually(async () => (await routers()) !== "");
  say(`told ${await routers()}`);
  allowForwarding(network);
  await lines(...outerCommands(network));
  say(`forwards ${await routers()}`);
  await ip("-6", "route", "flush", "default");
  await eventually(async () => (await routers()) !== "");
  say(`again ${await routers()}`);
  say(`pod ${await ip("-6", "route", "get", "fd00::a:2")}`);
  say(`machine ${await ip("-6", "-brief", "address", "show", "dev", "eth0", "scope", "global")}`);
} finally {
  router.kill("SIGKILL");
}
