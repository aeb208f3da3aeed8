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

/** How long all images together may take, milliseconds; the launcher gives up at about the same time. */
const limitMs = 290_000;
/** Longest standard error of the process that is kept. */
const maxAnswerBytes = 1_048_576;

/**
 * Fetches images into a template. This process blocks meanwhile: random numbers that it drew at the right time would be
 * the same in each copy, because OpenSSL takes new entropy only when its clock has moved far. So another process fetches.
 * Afterwards the template has its old time again, and no network.
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
    // What is not on the disk yet would be written by each copy.
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
