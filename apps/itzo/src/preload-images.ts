import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { ImagePreload } from "@kip/cloud-init";
import {
  entropyArgument,
  setUpNetwork,
  timeArguments,
  type CloneHelper,
} from "./apply-clone-identity.ts";
import { fetchImagesArgument } from "./fetch-images-argument.ts";
import { ItzoError } from "./errors.ts";

/** Time limit for all images together, milliseconds. The launcher gives up at about the same time. */
const limitMs = 290_000;
/** How much of the process's standard error is kept, bytes. */
const maxAnswerBytes = 1_048_576;

/**
 * Fetches images into a template. This blocks the process: random numbers that it generated while the clock is right would be
 * the same in each clone, because OpenSSL only takes new entropy when its clock has moved far. So another process fetches the
 * images. Afterwards the template has its old time again, and no network.
 *
 * @throws {ItzoError} `TEMPLATE_IMAGES_FAILED`, `BECOME_FAILED`
 */
export function preloadImages(preload: ImagePreload, helper: CloneHelper): void {
  const begin = performance.now();
  const templateMs = Date.now();
  helper.ask(`seed ${entropyArgument(preload.entropy)}`);
  helper.answer();
  setClock(helper, preload.unixMs);
  setUpNetwork(helper, preload.network, "/");
  try {
    fetchImages(preload);
  } finally {
    writeFileSync("/etc/resolv.conf", "");
    helper.ask("offline");
    helper.answer();
    setClock(helper, templateMs + performance.now() - begin);
    // Otherwise each clone would write the data that is not on the disk yet.
    helper.ask("hello");
    helper.answer();
  }
}

function setClock(helper: CloneHelper, ms: number): void {
  helper.ask(`clock ${timeArguments(ms)}`);
  helper.answer();
}

function fetchImages({ images, pull }: ImagePreload): void {
  const { status, signal, stderr, error } = spawnSync(
    process.execPath,
    [process.argv[1] ?? "", fetchImagesArgument],
    {
      input: JSON.stringify({ images, pull }),
      timeout: limitMs,
      killSignal: "SIGKILL",
      maxBuffer: maxAnswerBytes,
      stdio: ["pipe", "ignore", "pipe"],
    },
  );
  if (status === 0) return;
  const lastLine = stderr.toString().trim().split("\n").at(-1);
  throw new ItzoError(
    "TEMPLATE_IMAGES_FAILED",
    `Cannot fetch a template's images: ${lastLine || (error?.message ?? `the process ended with ${signal}`)}`,
    { cause: error },
  );
}
