import { closeSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { KipError } from "@kip/base";
import {
  maxPersonalityBytes,
  parseOrder,
  personalityPort,
  personalityWords,
  type Order,
} from "@kip/cloud-init";
import { readLineSync } from "./read-line.ts";

const portsDirectory = "/sys/class/virtio-ports";
const tries = 500;
const intervalMs = 20;

/** The template's connection to its launcher. */
export class PersonalityPort implements Disposable {
  readonly #descriptor: number;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** @throws {KipError} `PERSONALITY_PORT_MISSING` */
  static async open(): Promise<PersonalityPort> {
    // The kernel gets the ports' names some time after the driver is loaded, and nobody is told of it: hence the polling.
    for (let count = 0; count < tries; count++) {
      const port = findPort();
      if (port !== undefined) return new PersonalityPort(openSync(`/dev/${port}`, "r+"));
      await setTimeout(intervalMs);
    }
    throw new KipError(
      "PERSONALITY_PORT_MISSING",
      `Cannot become a template: there is no port "${personalityPort}"`,
      { remedy: "Give the machine a virtserialport of this name" },
    );
  }

  /** Tells why the errand failed. The launcher takes any word but the one it waits for as that. */
  complain(reason: string): void {
    writeSync(this.#descriptor, `${reason.replaceAll("\n", " ").slice(0, 1000)}\n`);
  }

  say(word: keyof typeof personalityWords): void {
    writeSync(this.#descriptor, `${personalityWords[word]}\n`);
  }

  /**
   * Waits for what the launcher wants, with the whole program: nothing of it may run in a copy before the copy has its
   * own random numbers and its own time.
   *
   * @throws {KipError} `PERSONALITY_INVALID`
   */
  read(): Order {
    return parseOrder(readLineSync(this.#descriptor, maxPersonalityBytes));
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
      return ""; // it has none yet
    }
  };
  try {
    return readdirSync(portsDirectory).find((port) => name(port) === personalityPort);
  } catch {
    return undefined; // the driver is not there yet
  }
}
