import { closeSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import {
  maxCloneOrderBytes,
  parseOrder,
  clonePort,
  cloneMessages,
  type Order,
} from "@kip/cloud-init";
import { readLineSync } from "./read-line.ts";
import { ItzoError } from "./errors.ts";

const portsDirectory = "/sys/class/virtio-ports";
const tries = 500;
const intervalMs = 20;

/** The template's connection to its launcher. */
export class ClonePort implements Disposable {
  readonly #descriptor: number;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** @throws {ItzoError} `PERSONALITY_PORT_MISSING` */
  static async open(): Promise<ClonePort> {
    // Poll, because the kernel does not announce the names of ports. They appear some time after the driver is loaded.
    for (let count = 0; count < tries; count++) {
      const port = findPort();
      if (port !== undefined) return new ClonePort(openSync(`/dev/${port}`, "r+"));
      await setTimeout(intervalMs);
    }
    throw new ItzoError(
      "PERSONALITY_PORT_MISSING",
      `Cannot become a template: there is no port "${clonePort}"`,
      { remedy: "Give the machine a virtserialport of this name" },
    );
  }

  /** Reports why a preload failed. The launcher treats any line other than the expected message as a failure. */
  sendFailure(reason: string): void {
    writeSync(this.#descriptor, `${reason.replaceAll("\n", " ").slice(0, 1000)}\n`);
  }

  send(message: keyof typeof cloneMessages): void {
    writeSync(this.#descriptor, `${cloneMessages[message]}\n`);
  }

  /**
   * Waits for an order, and blocks the whole program. None of it may run in a clone before the clone has its own random numbers
   * and time.
   *
   * @throws {CodedError} `PERSONALITY_INVALID`
   */
  read(): Order {
    return parseOrder(readLineSync(this.#descriptor, maxCloneOrderBytes));
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor);
  }
}

function findPort(): string | undefined {
  const name = (port: string): string => {
    try {
      return readFileSync(`${portsDirectory}/${port}/name`, "utf8").trim();
    } catch {
      return ""; // the port has no name yet
    }
  };
  try {
    return readdirSync(portsDirectory).find((port) => name(port) === clonePort);
  } catch {
    return undefined; // the driver is not loaded yet
  }
}
