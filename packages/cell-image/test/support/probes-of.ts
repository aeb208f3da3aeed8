import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { decode } from "@kip/base";

const decodeFacts = decode.object({
  run: decode.integer,
  hostname: decode.string,
  addresses: decode.list(decode.string),
  loopback: decode.string,
  routes: decode.string,
  machineId: decode.string,
  resolvConf: decode.string,
  controllers: decode.list(decode.string),
  mounts: decode.list(decode.string),
  seed: decode.list(decode.string),
  bootTimings: decode.map(decode.number),
  diskBytes: decode.integer,
  crun: decode.string,
  conmon: decode.string,
  epollWatches: decode.string,
  overlay: decode.string,
  time: decode.integer,
});

/** The probe's findings on a machine. */
export type ProbeFacts = ReturnType<typeof decodeFacts>;

/** Starts a machine with its console on standard output, and ends it when the probe has reported twice. */
export async function probesOf(
  args: readonly string[],
  program = "qemu-system-x86_64",
): Promise<readonly ProbeFacts[]> {
  const qemu = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const closed = new Promise((resolve) => qemu.on("close", resolve));
  const lines: string[] = [];
  const facts: ProbeFacts[] = [];
  try {
    for await (const line of createInterface({ input: qemu.stdout })) {
      lines.push(line);
      const [, json] = /probe: (\{.*\})/.exec(line) ?? [];
      if (json === undefined) continue;
      facts.push(decodeFacts(JSON.parse(json), "probe"));
      if (facts.length === 2) return facts;
    }
    throw new Error(`The machine ended early; its console:\n${lines.join("\n")}`);
  } finally {
    qemu.kill("SIGKILL");
    await closed;
  }
}
