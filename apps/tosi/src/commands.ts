import {
  bytes,
  isCodedError,
  nearest,
  OptionError,
  type CodedError,
  type OptionValues,
} from "@kip/base";
import { formatReference, ImageError, prefetchImage, type StoredImage } from "@kip/oci-image";
import { SomeImagesFailedError } from "./errors.ts";
import { extractTo, mountAt, saveConfig } from "./place-image.ts";
import type { Reporter } from "./reporter.ts";
import { openStore, pullOptions, readNamed, readReference } from "./settings.ts";

/** The input and output of a command. */
export interface CommandContext {
  readonly words: readonly string[];
  readonly options: OptionValues;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

type Command = (context: CommandContext) => Promise<void>;

const commands: Readonly<Record<string, Command>> = {
  pull: async (context) => {
    const image = await get(context, oneName(context));
    context.reporter.done(factsOf(image), image.repoDigest);
  },
  unpack: async (context) => {
    const [name, folder = ""] = wanted(context, ["NAME", "DIR"]);
    const image = await get(context, name ?? "");
    await extractTo(image, folder, context.signal);
    context.reporter.done({ ...factsOf(image), folder }, "");
  },
  inspect,
  verify,
  gc,
  prefetch,
};

/** Runs the command that the words name. Without a command, carries out the original's flags. */
export async function runCommandLine(context: CommandContext): Promise<void> {
  const [first, ...words] = context.words;
  if (first === undefined) return await original(context);
  const command = Object.hasOwn(commands, first) ? commands[first] : undefined;
  if (command) return await command({ ...context, words });
  const near = nearest(first, Object.keys(commands));
  throw new OptionError("OPTION_UNKNOWN", `Cannot run "tosi ${first}": there is no such command`, {
    remedy: near === undefined ? "See tosi -help" : `Did you mean tosi ${near}?`,
  });
}

async function original(context: CommandContext): Promise<void> {
  const { options } = context;
  const [extract, mount] = [options.text("extractto"), options.text("mount")];
  if (extract !== undefined && mount !== undefined) {
    throw new OptionError("OPTION_INVALID", "Cannot use -extractto and -mount together");
  }
  const image = await get(context, options.required("image"));
  if (extract !== undefined) await extractTo(image, extract, context.signal);
  if (mount !== undefined) await mountAt(image, mount);
  const file = options.text("saveconfig");
  if (file !== undefined) saveConfig(image.config, file);
  context.reporter.done(factsOf(image), "");
}

async function get(context: CommandContext, name: string): Promise<StoredImage> {
  const { options, env, reporter, signal } = context;
  const reference = readReference(name, options);
  const store = await openStore(options);
  const how = {
    ...pullOptions(reference, options, env),
    signal,
    onProgress: (progress: Parameters<Reporter["progress"]>[1]) =>
      reporter.progress(name, progress),
  };
  if (options.isSet("validate-cache")) await store.verify(reference, how);
  return await store.pull(reference, how);
}

async function inspect(context: CommandContext): Promise<void> {
  const reference = readReference(oneName(context), context.options);
  const image = await (await openStore(context.options)).find(reference);
  if (!image) {
    throw new ImageError("IMAGE_NOT_FOUND", "it is not in the store", {
      action: `inspect image "${formatReference(reference)}"`,
      remedy: "Pull it first",
    });
  }
  const facts = { ...factsOf(image), config: image.config };
  context.reporter.done(facts, JSON.stringify(facts, undefined, 2));
}

async function verify(context: CommandContext): Promise<void> {
  const { options, env, signal, reporter } = context;
  const name = oneName(context);
  const reference = readReference(name, options);
  const store = await openStore(options);
  const how = { ...pullOptions(reference, options, env), signal };
  const difference = await store.verify(reference, how);
  const line =
    difference === undefined
      ? "as it must be"
      : `${difference} differed; mended, unless it is mounted`;
  reporter.done({ image: name, isWhole: difference === undefined, difference }, `${name}: ${line}`);
}

async function gc(context: CommandContext): Promise<void> {
  const { options, reporter } = context;
  wanted(context, []);
  const size = options.text("max-size");
  const idle = options.text("unused-for");
  if (size === undefined && idle === undefined) {
    throw new OptionError(
      "OPTION_MISSING",
      "Cannot collect: neither -max-size nor -unused-for is given",
    );
  }
  const collected = await (
    await openStore(options)
  ).collect({
    maxBytes: size === undefined ? undefined : bytes(size),
    maxIdleMs: idle === undefined ? undefined : readDuration(idle),
  });
  const { removed, removedBytes, keptBytes } = collected;
  const line = `${removed.length} images removed, ${removedBytes} bytes; ${keptBytes} bytes kept`;
  reporter.done({ ...collected }, line);
}

async function prefetch(context: CommandContext): Promise<void> {
  const { options, env, signal, reporter } = context;
  const list = options.text("list");
  const listed = list === undefined ? [] : readNamed("list", list).split("\n");
  const names = [...context.words, ...listed]
    .map((name) => name.trim())
    .filter((name) => name !== "" && !name.startsWith("#"));
  const cache = options.required("cache");
  const verifies = options.isSet("validate-cache");
  const allowsPrivate = options.isSet("private");
  const failures: CodedError[] = [];
  for (const name of names) {
    try {
      const reference = readReference(name, options);
      const how = { ...pullOptions(reference, options, env), verifies, allowsPrivate, signal };
      const { writtenBytes: written } = await prefetchImage(reference, cache, how);
      reporter.done({ image: name, written }, `${name}: ${written} bytes new`);
    } catch (error) {
      signal.throwIfAborted();
      // One of several images may fail without affecting the others.
      if (!isCodedError(error) || names.length === 1) throw error;
      reporter.failed(error);
      failures.push(error);
    }
  }
  const [first] = failures;
  if (!first) return;
  const count = `${failures.length} of ${names.length} images`;
  throw new SomeImagesFailedError(first.code, `Cannot prefetch ${count}: see the failures above`, {
    cause: first,
  });
}

function factsOf(image: StoredImage): Readonly<Record<string, unknown>> {
  const { id, reference, repoDigest, layers, sizeBytes, notes } = image;
  return { image: reference, id, repoDigest, sizeBytes, layers, notes };
}

function oneName(context: CommandContext): string {
  return wanted(context, ["NAME"])[0] ?? "";
}

function wanted({ words }: CommandContext, names: readonly string[]): readonly string[] {
  if (words.length === names.length) return words;
  const expected = names.length === 0 ? "no words" : names.join(" ");
  throw new OptionError("OPTION_INVALID", `Cannot read the command: ${expected} expected after it`);
}

/** Parses durations such as `90s`, `10m`, `24h` and `7d`. @returns milliseconds */
function readDuration(text: string): number {
  const units: Readonly<Record<string, number>> = { s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
  const [, digits = "", unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const factor = units[unit];
  if (factor !== undefined) return Number(digits) * factor;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use -unused-for ${text}: for example 24h is expected`,
  );
}
