import { existsSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { errorText, type Logger, isSystemError } from "@kip/base";
import { collectGarbage } from "@kip/cell-agent";
import type { CloneIdentity } from "@kip/cloud-init";
import { applyCloneIdentity, ProgramHelper, type CloneHelper } from "./apply-clone-identity.ts";
import { waitForFile, writeBootResults, type BootResults } from "./boot-results.ts";
import { ClonePort } from "./clone-port.ts";
import { rehearseClone } from "./rehearse-clone.ts";
import { preloadImages } from "./preload-images.ts";
import { ItzoError } from "./errors.ts";

/** V8 compiles a regular expression on its second use. */
const rehearsals = 3;

/** A clone of a template that has its identity. */
export interface TemplateCopy<T> {
  /** The result of {@link TemplateOptions.load}. */
  readonly loaded: T;
  readonly boot: BootResults;
  /** Reports to the launcher that the agent listens. */
  readonly sendReady: () => void;
}

/** Options of {@link serveAsTemplate}. */
export interface TemplateOptions<T> {
  /** Where the boot script leaves its results. */
  readonly directory: string;
  /** The agent's log. It is emptied, so that each clone begins with an empty log. */
  readonly logFile: string;
  /** Loads what clones share. Called when the boot script has finished. */
  readonly load: () => Promise<T>;
  readonly logger: Logger;
}

/**
 * Makes this machine a template, waits until it continues as a clone, and applies the clone's identity.
 *
 * @throws {ItzoError} `PERSONALITY_PORT_MISSING`, `PERSONALITY_LOST`, `BECOME_FAILED`
 * @throws {CodedError} `PERSONALITY_INVALID`, `USER_DATA_INVALID`, `USER_DATA_YAML_UNSUPPORTED`
 */
export async function serveAsTemplate<T>(options: TemplateOptions<T>): Promise<TemplateCopy<T>> {
  const { directory, logger } = options;
  const mark = path.join(directory, "template-offered");
  if (existsSync(mark)) {
    throw new ItzoError(
      "PERSONALITY_LOST",
      "Cannot make a machine of the template's copy: the agent ended while it did so",
      { remedy: "Start another machine" },
    );
  }
  await waitForFile(path.join(directory, "boot-done"));
  const loaded = await options.load();
  const port = await ClonePort.open();
  for (let count = 0; count < rehearsals; count++)
    await rehearseClone(path.join(directory, "rehearsal"));
  // Collect the garbage now, because doing it in a clone would write to all of the clone's memory.
  collectGarbage();
  empty(options.logFile);
  // Creating a new file is cheaper than replacing one, whose content the file system would write at once.
  rmSync("/etc/hostname", { force: true });
  writeFileSync(mark, "");
  const helper = new ProgramHelper(directory);
  const identity = waitForIdentity(port, helper);
  const receivedAtMs = performance.now();
  const startedAtMs = Number(process.hrtime.bigint()) / 1e6;
  await applyCloneIdentity(identity, { helper, receivedAtMs, directory, logger });
  const timingsMs = { identity: Math.round(performance.now() - receivedAtMs) };
  const boot = { timingsMs, startedAtMs };
  writeBootResults(directory, boot);
  return {
    boot,
    loaded,
    sendReady: () => {
      port.send("ready");
      port[Symbol.dispose]();
    },
  };
}

/** Carries out orders until one of them is an identity. */
function waitForIdentity(port: ClonePort, helper: CloneHelper): CloneIdentity {
  port.send("template");
  for (;;) {
    const order = port.read();
    if (order.kind === "become") return order.identity;
    try {
      preloadImages(order.preload, helper);
      port.send("template");
    } catch (error) {
      port.sendFailure(errorText(error));
    }
  }
}

function empty(file: string): void {
  try {
    truncateSync(file);
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
  }
}
