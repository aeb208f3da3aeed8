import { randomUUID } from "node:crypto";
import { openSync, writeFileSync, writeSync } from "node:fs";
import path from "node:path";
import { type Logger } from "@kip/base";
import { userDataOf, type CloneIdentity } from "@kip/cloud-init";
import { applySeed } from "./first-boot.ts";
import { readLineSync } from "./read-line.ts";
import { ItzoError } from "./errors.ts";

/** Node makes so many UUIDs in advance (`kBatchSize` of lib/internal/crypto/random.js). */
const uuidsInAdvance = 128;
const maxAnswerBytes = 4096;

/** What only another program can do for the agent: random numbers, time and network. */
export interface CloneHelper {
  ask(line: string): void;
  /** Waits until it is done. @throws {ItzoError} `BECOME_FAILED` */
  answer(): void;
}

/** The helper of the boot script, which waits in the template: recipe/become.pl. */
export class ProgramHelper implements CloneHelper {
  readonly #input: number;
  readonly #answers: number;

  /** Waits until the helper waits. @param directory where the boot script leaves its results */
  constructor(directory: string) {
    // In this order: the helper's shell opens them so, and each waits for the other side.
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
 * Makes this copy of a template the machine that the identity describes. First of all its random numbers and its
 * time, before anything draws or uses them.
 *
 * @throws {ItzoError} `BECOME_FAILED`; `USER_DATA_INVALID`
 */
export async function applyCloneIdentity(
  identity: CloneIdentity,
  options: {
    readonly helper: CloneHelper;
    /** When the identity came, by `performance.now()`. */
    readonly receivedAtMs: number;
    /** Where the boot script leaves its results. */
    readonly directory: string;
    /** Put before the paths of the files that are written. @default "/" */
    readonly root?: string;
    readonly logger: Logger;
  },
): Promise<void> {
  const { helper, root = "/" } = options;
  const { entropy, unixMs, network, machineId, instanceId, hostname } = identity;
  const nowMs = unixMs + performance.now() - options.receivedAtMs;
  helper.ask(`machine ${entropyArgument(entropy)} ${timeArguments(nowMs)}`);
  helper.answer();
  // OpenSSL's generator sees by the clock that it has to take new entropy; what was drawn before must not be used.
  for (let count = 0; count < uuidsInAdvance; count++) randomUUID();
  setUpNetwork(helper, network, root, () => {
    writeFileSync(path.join(root, "etc/machine-id"), `${machineId}\n`);
  });
  const userData = userDataOf(identity);
  await applySeed({ instanceId, localHostname: hostname, userData }, options);
}

/** Entropy of an order, as the helper takes it. */
export function entropyArgument(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}

/** Milliseconds since the epoch, as the helper takes them: seconds and nanoseconds. */
export function timeArguments(ms: number): string {
  return `${Math.trunc(ms / 1000)} ${Math.trunc((ms % 1000) * 1e6)}`;
}

/**
 * Gives the machine its network.
 *
 * @param root put before the paths of the files that are written
 * @param meanwhile done while the helper works
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

/** The mask of an IPv4 prefix of so many bits. */
export function netmask(bits: number): string {
  const mask = (0xff_ff_ff_ff * 2 ** (32 - bits)) % 2 ** 32;
  return [24, 16, 8, 0].map((shift) => (mask / 2 ** shift) & 0xff).join(".");
}
