import { writeSync } from "node:fs";
import { text } from "node:stream/consumers";
import { decodeImagePull } from "@kip/agent-api";
import { decode, errorText, silentLogger, systemClock } from "@kip/base";
import { agentDirectories, fetchImages } from "@kip/cell-agent";

const decodeInput = decode.object({ images: decode.list(decode.string), pull: decode.string });

/** Runs the process that `preloadImages` starts. Fetches the images that are named on standard input, and reports failures. */
export async function runFetchImages(stateDir: string, runDir: string): Promise<void> {
  try {
    await fetchNamed(stateDir, runDir);
  } catch (error) {
    writeSync(2, `${errorText(error)}\n`);
    process.exitCode = 1;
  }
}

async function fetchNamed(stateDir: string, runDir: string): Promise<void> {
  const { images, pull } = decodeInput(JSON.parse(await text(process.stdin)), "stdin");
  await fetchImages({
    images,
    pull: decodeImagePull(JSON.parse(pull), "pull"),
    directory: agentDirectories(stateDir, runDir).images,
    logger: silentLogger,
    clock: systemClock,
  });
}
