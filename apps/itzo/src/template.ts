import { existsSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { errorText, hasCode, KipError, type Logger } from "@kip/base";
import type { Personality } from "@kip/cloud-init";
import { becomeMachine, ProgramHelper, type BecomeHelper } from "./become-machine.ts";
import { appearance, writeBootResults, type BootResults } from "./boot-results.ts";
import { PersonalityPort } from "./personality-port.ts";
import { rehearseBecoming } from "./rehearse-becoming.ts";
import { runErrand } from "./run-errand.ts";

/** V8 compiles a regular expression when it is used a second time. */
const rehearsals = 3;

/** What a copy of a template has when it has become a machine. */
export interface TemplateCopy<T> {
  /** What the template has loaded. */
  readonly loaded: T;
  readonly boot: BootResults;
  /** Tells the launcher that the agent listens. */
  readonly sayReady: () => void;
}

/** Options of {@link serveAsTemplate}. */
export interface TemplateOptions<T> {
  /** Where the boot script leaves its results. */
  readonly directory: string;
  /** File that holds what the agent has written; emptied, so that it does not show in each copy. */
  readonly logFile: string;
  /** Loads what copies have in common; called when the boot script has done what it does for templates. */
  readonly load: () => Promise<T>;
  readonly logger: Logger;
}

/**
 * Makes this machine one that can be copied, waits until it is a copy, and makes that the machine it is to be.
 *
 * @throws {KipError} `PERSONALITY_PORT_MISSING`, `PERSONALITY_INVALID`, `PERSONALITY_LOST`, `BECOME_FAILED`;
 * `USER_DATA_INVALID`, `USER_DATA_YAML_UNSUPPORTED`
 */
export async function serveAsTemplate<T>(options: TemplateOptions<T>): Promise<TemplateCopy<T>> {
  const { directory, logger } = options;
  const mark = path.join(directory, "template-offered");
  if (existsSync(mark)) {
    throw new KipError(
      "PERSONALITY_LOST",
      "Cannot make a machine of the template's copy: the agent ended while it did so",
      { remedy: "Start another machine" },
    );
  }
  await appearance(path.join(directory, "boot-done"));
  const loaded = await options.load();
  const port = await PersonalityPort.open();
  for (let count = 0; count < rehearsals; count++)
    await rehearseBecoming(path.join(directory, "rehearsal"));
  collectGarbage();
  empty(options.logFile);
  // A new file is cheaper than one that takes the place of another: the file system would write that one's content at once.
  rmSync("/etc/hostname", { force: true });
  writeFileSync(mark, "");
  const helper = new ProgramHelper(directory);
  const personality = waitForPersonality(port, helper);
  const receivedAtMs = performance.now();
  const startedAtMs = Number(process.hrtime.bigint()) / 1e6;
  await becomeMachine(personality, { helper, receivedAtMs, directory, logger });
  const timingsMs = { personality: Math.round(performance.now() - receivedAtMs) };
  const boot = { timingsMs, startedAtMs };
  writeBootResults(directory, boot);
  return {
    boot,
    loaded,
    sayReady: () => {
      port.say("ready");
      port[Symbol.dispose]();
    },
  };
}

/** Does what the launcher wants until that is to be a machine. */
function waitForPersonality(port: PersonalityPort, helper: BecomeHelper): Personality {
  port.say("template");
  for (;;) {
    const order = port.read();
    if (order.kind === "become") return order.personality;
    try {
      runErrand(order.errand, helper);
      port.say("template");
    } catch (error) {
      port.complain(errorText(error));
    }
  }
}

/** So that a copy does not have to, which would write to all of its memory. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void; // what the flag puts into new contexts
  collect();
}

function empty(file: string): void {
  try {
    truncateSync(file);
  } catch (error) {
    if (!hasCode(error, "ENOENT")) throw error;
  }
}
