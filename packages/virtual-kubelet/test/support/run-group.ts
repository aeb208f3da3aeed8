import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";

/** Options of {@link runGroup}. */
interface GroupOptions {
  readonly cwd?: string;
  /** @default the caller's environment */
  readonly env?: NodeJS.ProcessEnv;
  /** Ends the program and everything that it has started. */
  readonly signal: AbortSignal;
}

/**
 * Runs a program to its end and returns its standard output. Unlike a plain child, it takes the programs that it has started
 * along when the test is over: npm runs npm runs node.
 */
export async function runGroup(
  file: string,
  args: readonly string[],
  { signal, ...options }: GroupOptions,
): Promise<string> {
  signal.throwIfAborted();
  const child = spawn(file, args, {
    ...options,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const end = (): void => {
    try {
      process.kill(-(child.pid ?? NaN), "SIGKILL");
    } catch {
      // It has ended, or was never started.
    }
  };
  signal.addEventListener("abort", end, { once: true });
  try {
    const [output, errors, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "close") as Promise<[number | null]>, // as Node documents it
    ]);
    signal.throwIfAborted();
    if (code === 0) return output;
    throw new Error(`${file} ${args.join(" ")} ended with ${code}:\n${output}${errors}`);
  } finally {
    signal.removeEventListener("abort", end);
  }
}
