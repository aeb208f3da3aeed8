import { createConnection, type Socket } from "node:net";
import { decode } from "@kip/base";
import { CloudError } from "@kip/cloud";

const shutdownData = decode.object({ reason: decode.optional(decode.string) });

const message = decode.object({
  QMP: decode.optional(decode.unknownValue),
  event: decode.optional(decode.string),
  data: decode.optional(decode.unknownValue),
});

/**
 * A connection to a running QEMU. Its end is the machine's end: that is how kip notices, without
 * looking again and again.
 *
 * QEMU serves one connection at a time; a second one (another kip process) waits in the queue, hears
 * nothing, but ends with the machine all the same.
 *
 * @see https://www.qemu.org/docs/master/interop/qmp-spec.html
 */
export class ControlSocket {
  /** Resolves with what QEMU said of the reason, when the machine has ended. */
  readonly ended: Promise<string | undefined>;
  readonly #socket: Socket;
  #closedByUs = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const ended = Promise.withResolvers<string | undefined>();
    this.ended = ended.promise;
    let reason: string | undefined;
    let rest = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const parsed of lines.map(parse)) {
        if (parsed?.QMP !== undefined) this.#accept();
        if (parsed?.event === "SHUTDOWN") reason = shutdownReason(parsed.data);
      }
    });
    // An error is followed by "close", which is what counts.
    socket.on("error", () => {});
    socket.on("close", () => {
      if (!this.#closedByUs) ended.resolve(reason);
    });
    // A watch alone must not keep a process alive.
    socket.unref();
  }

  /**
   * Connects to the control socket of a machine.
   *
   * @returns undefined if no QEMU listens there
   * @throws {CloudError} `CLOUD_UNAVAILABLE` if the socket cannot be used
   */
  static async connect(file: string): Promise<ControlSocket | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<ControlSocket | undefined>();
    const socket = createConnection(file);
    const onError = (error: NodeJS.ErrnoException): void => {
      if (error.code === "ENOENT" || error.code === "ECONNREFUSED") return resolve(undefined);
      return reject(
        new CloudError("CLOUD_UNAVAILABLE", `Cannot reach the machine at "${file}"`, {
          cause: error,
        }),
      );
    };
    socket.once("error", onError);
    socket.once("connect", () => {
      socket.off("error", onError);
      resolve(new ControlSocket(socket));
    });
    return await promise;
  }

  /** Lets go of the machine, which runs on. */
  close(): void {
    this.#closedByUs = true;
    this.#socket.destroy();
  }

  /** Leaves QEMU's first mode, in which it sends no events. */
  #accept(): void {
    this.#socket.write(`${JSON.stringify({ execute: "qmp_capabilities" })}\n`);
  }
}

function parse(line: string): decode.Decoded<typeof message> | undefined {
  try {
    return message(JSON.parse(line), "QMP");
  } catch {
    return undefined; // not for us: answers to our commands carry nothing that we need
  }
}

function shutdownReason(data: unknown): string | undefined {
  try {
    return shutdownData(data, "QMP.data").reason;
  } catch {
    return undefined;
  }
}
