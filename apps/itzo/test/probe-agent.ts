// Stands in for the agent in the template's test. Generates random numbers in the template and in its clones, prints them on
// the console, crashes once, and prints them again.
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { hostname, networkInterfaces } from "node:os";
import { text as consume } from "node:stream/consumers";
import { createServer } from "node:tls";
import { promisify } from "node:util";
import { createLogger } from "@kip/base";
import { readBootResults } from "../src/boot-results.ts";
import { fetchImagesArgument } from "../src/fetch-images-argument.ts";
import { isTemplate } from "../src/first-boot.ts";
import { serveAsTemplate } from "../src/template.ts";

const directory = "/run/kip";
const text = (file: string): string => readFileSync(file, "utf8").trim();

/** From OpenSSL's generators of this thread and of another one, and from Node's buffer. */
const draw = async (): Promise<object> => ({
  bytes: randomBytes(16).toString("hex"),
  bytesOfPool: (await promisify(randomBytes)(16)).toString("hex"),
  uuid: randomUUID(),
  ticketKeys: createServer().getTicketKeys().toString("hex"),
});

/** Prints what the process that fetches images sees. */
async function fetchImages(): Promise<void> {
  const { bytes } = (await draw()) as { readonly bytes: string };
  const input = await consume(process.stdin);
  const facts = { time: Date.now(), bytes, input, routes: text("/proc/net/route") };
  writeFileSync("/dev/console", `preload: ${JSON.stringify(facts)}\n`);
}

async function main(): Promise<void> {
  if (process.argv[2] === fetchImagesArgument) return await fetchImages();
  const drawn = isTemplate(directory) ? await becomeCopy() : undefined;
  // Draw this number first: the generator's state is copied, so clones are recognized by it.
  const copied = Math.random();
  const own = await draw();
  const { startedAtMs } = await readBootResults(directory);
  const facts = {
    time: Date.now(),
    isFirst: drawn !== undefined,
    drawn,
    copied,
    own,
    kernelUuid: text("/proc/sys/kernel/random/uuid"),
    bootId: text("/proc/sys/kernel/random/boot_id"),
    startedAtMs,
    hostname: hostname(),
    hostnameFile: text("/etc/hostname"),
    machineId: text("/etc/machine-id"),
    resolvConf: text("/etc/resolv.conf"),
    interface: networkInterfaces()["eth0"]?.find(({ family }) => family === "IPv4"),
    routes: text("/proc/net/route"),
    file: text("/var/lib/itzo/file"),
  };
  console.log(`probe: ${JSON.stringify(facts)}`);
  if (drawn) process.kill(process.pid, "SIGKILL");
}

async function becomeCopy(): Promise<object> {
  let drawn: object = {};
  const copy = await serveAsTemplate({
    directory,
    logFile: "/var/log/itzo.log",
    load: async () => {
      drawn = await draw();
    },
    logger: createLogger(),
  });
  copy.sendReady();
  return drawn;
}

void main();
