import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { KipError } from "@kip/base";
import type { Errand } from "@kip/cloud-init";
import { entropyWord, setUpNetwork, timeWords, type BecomeHelper } from "./become-machine.ts";
import { fetchWord } from "./fetch-word.ts";

/** How long all images together may take, milliseconds; the launcher gives up at about the same time. */
const limitMs = 290_000;
/** Of what the process says. */
const maxAnswerBytes = 1_048_576;

/**
 * Gets images in a template. Nothing of this process may run meanwhile: what it draws by the right time would be what
 * each copy has, because OpenSSL takes new entropy only when its clock has moved far. So another process does the work while
 * this one stands still, and afterwards it is the template's time again and there is no network.
 *
 * @throws {KipError} `TEMPLATE_IMAGES_FAILED`, `BECOME_FAILED`
 */
export function runErrand(errand: Errand, helper: BecomeHelper): void {
  const begin = performance.now();
  const templateMs = Date.now();
  helper.ask(`seed ${entropyWord(errand.entropy)}`);
  helper.answer();
  setClock(helper, errand.unixMs);
  setUpNetwork(helper, errand.network, "/");
  try {
    fetchImages(errand);
  } finally {
    writeFileSync("/etc/resolv.conf", "");
    helper.ask("offline");
    helper.answer();
    setClock(helper, templateMs + performance.now() - begin);
    // What is not on the disk yet would be written by each copy.
    helper.ask("hello");
    helper.answer();
  }
}

function setClock(helper: BecomeHelper, ms: number): void {
  helper.ask(`clock ${timeWords(ms)}`);
  helper.answer();
}

function fetchImages({ images, pull }: Errand): void {
  const { status, signal, stderr, error } = spawnSync(
    process.execPath,
    [process.argv[1] ?? "", fetchWord],
    {
      input: JSON.stringify({ images, pull }),
      timeout: limitMs,
      killSignal: "SIGKILL",
      maxBuffer: maxAnswerBytes,
      stdio: ["pipe", "ignore", "pipe"],
    },
  );
  if (status === 0) return;
  const said = stderr.toString().trim().split("\n").at(-1);
  throw new KipError(
    "TEMPLATE_IMAGES_FAILED",
    `Cannot fetch a template's images: ${said || (error?.message ?? `the process ended with ${signal}`)}`,
    { ...(error && { cause: error }) },
  );
}
