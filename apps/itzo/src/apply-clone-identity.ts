import { randomUUID } from "node:crypto";
import { openSync, writeFileSync, writeSync } from "node:fs";
import path from "node:path";
import { type Logger } from "@kip/base";
import { userDataOf, type CloneIdentity } from "@kip/cloud-init";
import { applySeed } from "./first-boot.ts";
import { readLineSync } from "./read-line.ts";
import { ItzoError } from "./errors.ts";

/** Number of UUIDs that Node generates in advance (`kBatchSize` in lib/internal/crypto/random.js). */
const uuidsInAdvance = 128;
const maxAnswerBytes = 4096;

/** What another program has to do for the agent: set random numbers, time and network. */
export interface CloneHelper {
  ask(line: string): void;
  /** Waits until the request is done. @throws {ItzoError} `BECOME_FAILED` */
  answer(): void;
}

/** The boot script's helper recipe/become.pl, which is waiting in the template. */
export class ProgramHelper implements CloneHelper {
  readonly #input: number;
  readonly #answers: number;

  /** Waits until the helper is ready. @param directory where the boot script leaves its results */
  constructor(directory: string) {
    // Open them in the same order as the helper's shell, because each open waits for the other side.
    this.#input = openSync(path.join(directory, "become"), "w");
    this.#answers = openSync(path.join(directory, "become-answers"), "r");
    this.ask("hello");
    this.answer();
  }

  ask(line: string): void {
    writeSync(this.#input, `${line}\n`);
  }

  answer(): void {
    const answer = readLineSync(this.#answers, maxAnswerBytes);
    if (answer === "done") return;
    throw new ItzoError("BECOME_FAILED", `Cannot make a machine of the template's copy: ${answer}`);
  }
}

/**
 * Turns this clone of a template into the machine that the identity describes. Sets random numbers and time first, before
 * anything uses them.
 *
 * @throws {ItzoError} `BECOME_FAILED`; `USER_DATA_INVALID`
 */
export async function applyCloneIdentity(
  identity: CloneIdentity,
  options: {
    readonly helper: CloneHelper;
    /** When the identity arrived, by `performance.now()`. */
    readonly receivedAtMs: number;
    /** Where the boot script leaves its results. */
    readonly directory: string;
    /** Prefix of the paths of all written files. @default "/" */
    readonly root?: string;
    readonly logger: Logger;
  },
): Promise<void> {
  const { helper, root = "/" } = options;
  const { entropy, unixMs, network, machineId, instanceId, hostname } = identity;
  const nowMs = unixMs + performance.now() - options.receivedAtMs;
  helper.ask(`machine ${entropyArgument(entropy)} ${timeArguments(nowMs)}`);
  helper.answer();
  // OpenSSL's generator notices by the clock that it needs new entropy. Discard the UUIDs that were generated before.
  for (let count = 0; count < uuidsInAdvance; count++) randomUUID();
  setUpNetwork(helper, network, root, () => {
    writeFileSync(path.join(root, "etc/machine-id"), `${machineId}\n`);
  });
  const userData = userDataOf(identity);
  await applySeed({ instanceId, localHostname: hostname, userData }, options);
}

/** The entropy of an order, in the helper's format. */
export function entropyArgument(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}

/** A time in the helper's format: seconds and nanoseconds. @param ms milliseconds since the Unix epoch */
export function timeArguments(ms: number): string {
  return `${Math.trunc(ms / 1000)} ${Math.trunc((ms % 1000) * 1e6)}`;
}

/**
 * Configures the machine's network.
 *
 * @param root prefix of the paths of all written files
 * @param meanwhile called while the helper works
 * @throws {ItzoError} `BECOME_FAILED`
 */
export function setUpNetwork(
  helper: CloneHelper,
  network: CloneIdentity["network"],
  root: string,
  meanwhile: () => void = () => {},
): void {
  const [address = "", prefix] = network.address.split("/");
  helper.ask(`network ${network.mac} ${address} ${netmask(Number(prefix))} ${network.gateway}`);
  const servers = network.nameservers.map((server) => `nameserver ${server}\n`);
  writeFileSync(path.join(root, "etc/resolv.conf"), servers.join(""));
  meanwhile();
  helper.answer();
}

/** The IPv4 netmask with this many bits. */
export function netmask(bits: number): string {
  const mask = (0xff_ff_ff_ff * 2 ** (32 - bits)) % 2 ** 32;
  return [24, 16, 8, 0].map((shift) => (mask / 2 ** shift) & 0xff).join(".");
}
