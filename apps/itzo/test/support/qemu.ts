import { spawn } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { access, readFile } from "node:fs/promises";
import { createConnection, type Socket } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { decode } from "@kip/base";

const decodeMessage = decode.object({
  event: decode.optional(decode.string),
  error: decode.optional(decode.object({ desc: decode.string })),
  data: decode.optional(decode.unknownValue),
  return: decode.optional(decode.unknownValue),
});
const decodeStatus = decode.object({ status: decode.optional(decode.string) });

/** A QEMU process with a control socket, a console in a file and a port on a socket, all in one folder. */
export class Qemu implements AsyncDisposable {
  /** The machine's messages on its port, one per line. */
  readonly port: Socket;
  readonly console: string;
  readonly #control: Socket;
  readonly #closed: Promise<unknown>;
  readonly #answers: ((message: ReturnType<typeof decodeMessage>) => void)[] = [];
  readonly #migrations = Promise.withResolvers<void>();

  private constructor(
    folder: string,
    sockets: { readonly port: Socket; readonly control: Socket },
    closed: Promise<unknown>,
  ) {
    this.console = path.join(folder, "console");
    this.port = sockets.port;
    this.#control = sockets.control;
    this.#closed = closed;
    this.#migrations.promise.catch(() => {}); // awaited where the result is needed
    for (const socket of Object.values(sockets)) socket.on("error", () => {});
    const lines = createInterface({ input: this.#control });
    lines.on("error", () => {});
    lines.on("line", (line) => this.#hear(line));
  }

  /** @param args in addition to those that this class needs */
  static async start(folder: string, args: readonly string[]): Promise<Qemu> {
    const socket = (name: string): string =>
      `socket,id=${name},server=on,wait=off,path=${folder}/${name}.sock`;
    const own = [
      ["-chardev", socket("control"), "-mon", "chardev=control,mode=control"],
      ["-chardev", socket("port"), "-chardev", `file,id=console,path=${folder}/console`],
      ["-serial", "chardev:console", "-display", "none", "-nodefaults", "-no-reboot", "-S"],
    ].flat();
    const qemu = spawn("qemu-system-x86_64", [...own, ...args], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    const closed = once(qemu, "close");
    const ended = closed.then(() => Promise.reject(new Error("QEMU ended")));
    const [control, port] = await Promise.race([
      Promise.all([connect(`${folder}/control.sock`), connect(`${folder}/port.sock`)]),
      ended,
    ]);
    ended.catch(() => {});
    const self = new Qemu(folder, { control, port }, closed);
    await self.execute("qmp_capabilities");
    const capabilities = ["x-ignore-shared", "events"].map((capability) => ({
      capability,
      state: true,
    }));
    await self.execute("migrate-set-capabilities", { capabilities });
    return self;
  }

  async execute(command: string, args: object = {}): Promise<void> {
    const answer = new Promise<ReturnType<typeof decodeMessage>>((resolve) =>
      this.#answers.push(resolve),
    );
    this.#control.write(`${JSON.stringify({ execute: command, arguments: args })}\n`);
    const { error } = await answer;
    if (error) throw new Error(`QEMU refused ${command}: ${error.desc}`);
  }

  /** Runs `migrate` or `migrate-incoming` until it ends. */
  async migrate(command: string, uri: string): Promise<void> {
    await this.execute(command, { uri });
    await this.#migrations.promise;
  }

  /** The next line from the port. Fails with the console's text if the machine ends. */
  async word(): Promise<string> {
    const lines = createInterface({ input: this.port });
    const closed = this.#closed.then(async () => {
      throw new Error(`The machine ended; its console:\n${await readFile(this.console, "latin1")}`);
    });
    const line = once(lines, "line") as Promise<[string]>;
    const [word] = await Promise.race([line, closed]);
    return word;
  }

  /** Waits until the console shows `count` lines with the text. Returns the rest of each of these lines. */
  async told(text: string, count: number): Promise<readonly string[]> {
    const watcher = watch(this.console);
    try {
      for (;;) {
        const changed = once(watcher, "change");
        const lines = (await readFile(this.console, "latin1")).split("\n").slice(0, -1);
        const found = lines.filter((line) => line.includes(text));
        if (found.length >= count)
          return found.map((line) => line.slice(line.indexOf(text) + text.length).trim());
        await changed;
      }
    } finally {
      watcher.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.race([this.execute("quit").catch(() => {}), this.#closed]);
    await this.#closed;
  }

  #hear(line: string): void {
    const message = decodeMessage(JSON.parse(line), "QMP");
    if (message.event === "MIGRATION") {
      const { status } = decodeStatus(message.data, "QMP.data");
      if (status === "completed") this.#migrations.resolve();
      if (status === "failed") this.#migrations.reject(new Error("QEMU could not migrate"));
    }
    if (message.error || message.return !== undefined) this.#answers.shift()?.(message);
  }
}

/** Connects to a socket of a QEMU that is starting. */
async function connect(file: string): Promise<Socket> {
  const watcher = watch(path.dirname(file));
  try {
    for (;;) {
      const changed = once(watcher, "change");
      const isThere = await access(file).then(
        () => true,
        () => false,
      );
      const socket = isThere ? createConnection(file) : undefined;
      const isConnected =
        socket &&
        (await once(socket, "connect").then(
          () => true,
          () => false,
        ));
      if (isConnected === true) return socket;
      await changed;
    }
  } finally {
    watcher.close();
  }
}
