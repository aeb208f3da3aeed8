import { createConnection, type Socket } from "node:net";
import { isSystemError, systemClock, withTimeout, type decode } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { decodeEventData, parseQmpMessage, type QmpMessage } from "./qmp-message.ts";
import { ReadLimit } from "./read-limit.ts";

/** A QMP command. */
export interface QmpCommand {
  readonly execute: string;
  readonly arguments?: Readonly<Record<string, unknown>> | undefined;
}

/** Time limit for a command, and for other connections that QEMU serves first, milliseconds. */
const answerLimitMs = 10_000;

/** Many times the length of QEMU's answers, UTF-16 code units. */
const maxLineLength = 1_048_576;

type EventListener = (event: string, data: unknown) => void;

interface Pending {
  readonly command: QmpCommand;
  readonly answer: PromiseWithResolvers<unknown>;
}

/**
 * A connection to one of QEMU's control sockets.
 *
 * QEMU serves one connection per socket at a time. A second one waits in the queue and receives nothing until the first is
 * closed, but also ends with the machine.
 *
 * @see https://www.qemu.org/docs/master/interop/qmp-spec.html
 */
export class QmpSession {
  /** Resolves when QEMU serves this connection. It then sends events and accepts commands. */
  readonly served: Promise<void>;
  /** Resolves when the connection is closed, by either side. */
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #listeners = new Set<EventListener>();
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #isClosed = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    const served = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    this.served = served.promise;
    this.closed = closed.promise;
    this.served.catch(() => {}); // callers that wait get the error
    const limit = new ReadLimit(socket);
    let rest = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      limit.count(text.length);
      // Only searches the new text, because a line may arrive one character at a time.
      const lines = text.includes("\n") ? (rest + text).split("\n") : [rest + text];
      rest = lines.pop() ?? "";
      // A guest may have broken into QEMU. The end of a line whose beginning is dropped cannot be parsed and is ignored.
      if (rest.length > maxLineLength) rest = "";
      for (const line of lines) {
        const message = parseQmpMessage(line);
        if (message?.QMP !== undefined) served.resolve(this.#leaveFirstMode());
        else if (message) this.#take(message);
      }
    });
    // An error is followed by "close", which is handled.
    socket.on("error", () => {});
    socket.on("close", () => {
      limit[Symbol.dispose]();
      this.#isClosed = true;
      for (const { command, answer } of this.#pending.values()) answer.reject(ended(command));
      this.#pending.clear();
      served.reject(ended({ execute: "qmp_capabilities" }));
      closed.resolve();
    });
  }

  /**
   * Connects to a control socket.
   *
   * @returns undefined if no QEMU listens there
   * @throws {CloudError} `CLOUD_UNAVAILABLE` if the socket cannot be used
   */
  static async connect(file: string): Promise<QmpSession | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<QmpSession | undefined>();
    const socket = createConnection(file);
    const onError = (error: Error): void => {
      if (isSystemError(error, "ENOENT", "ECONNREFUSED")) return resolve(undefined);
      return reject(
        new CloudError("CLOUD_UNAVAILABLE", `Cannot reach the machine at "${file}"`, {
          cause: error,
        }),
      );
    };
    socket.once("error", onError);
    socket.once("connect", () => {
      socket.off("error", onError);
      resolve(new QmpSession(socket));
    });
    return await promise;
  }

  /**
   * Runs a command and returns QEMU's answer.
   *
   * @throws {CloudError} `CLOUD_UNAVAILABLE` with QEMU's message if it refuses, ends, or does not answer within 10 s
   */
  async execute(execute: string, args?: Readonly<Record<string, unknown>>): Promise<unknown> {
    const command: QmpCommand = { execute, arguments: args };
    await withLimit(this.served, command);
    return await this.#send(command);
  }

  /**
   * Calls `listener` for each event with this name, until the returned function is called. An event that cannot be decoded is
   * ignored, because a guest may have broken into QEMU.
   */
  onEvent<T>(event: string, decoder: decode.Decoder<T>, listener: (data: T) => void): () => void {
    const own: EventListener = (name, data) => {
      if (name !== event) return;
      const decoded = decodeEventData(decoder, data);
      if (decoded) listener(decoded.value);
    };
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** A session alone must not keep this process alive. */
  unref(): void {
    this.#socket.unref();
  }

  /** Closes the connection. The machine keeps running. */
  close(): void {
    this.#socket.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** QEMU starts in a mode without events, in which this is the only command. */
  async #leaveFirstMode(): Promise<void> {
    await this.#send({ execute: "qmp_capabilities" });
  }

  async #send(command: QmpCommand): Promise<unknown> {
    if (this.#isClosed) throw ended(command);
    const id = this.#nextId++;
    const answer = Promise.withResolvers<unknown>();
    this.#pending.set(id, { command, answer });
    this.#socket.write(`${JSON.stringify({ ...command, id })}\n`);
    return await withLimit(answer.promise, command);
  }

  #take({ event, data, id, error, return: value }: QmpMessage): void {
    if (event !== undefined) {
      for (const listener of this.#listeners) listener(event, data);
      return;
    }
    const pending = id === undefined ? undefined : this.#pending.get(id);
    if (id === undefined || !pending) return;
    this.#pending.delete(id);
    if (error) pending.answer.reject(failure(pending.command, error.desc));
    else pending.answer.resolve(value);
  }
}

/**
 * Runs commands on a machine, one after the other, over its command socket (`files.command`), and returns their answers. Any
 * process may do so at any time. It waits for its turn.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with QEMU's message; commands after the failed one are not run
 * @example
 * await runCommands(files.command, [
 *   { execute: "device_del", arguments: { id: "volume-1" } },
 * ]);
 */
export async function runCommands(
  commandSocket: string,
  commands: readonly QmpCommand[],
): Promise<readonly unknown[]> {
  using session = await openCommands(commandSocket);
  const answers: unknown[] = [];
  for (const { execute, arguments: args } of commands)
    answers.push(await session.execute(execute, args));
  return answers;
}

/**
 * A session on the command socket, for callers that also wait for events. Close it soon, because others wait.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if the machine is not running, or serves others for over 10 s
 */
export async function openCommands(commandSocket: string): Promise<QmpSession> {
  const until = systemClock.monotonic() + answerLimitMs;
  for (;;) {
    try {
      const session = await QmpSession.connect(commandSocket);
      if (session) return session;
      throw new CloudError("CLOUD_UNAVAILABLE", "Cannot control the machine: it does not run");
    } catch (error) {
      // QEMU's queue has two places. A connection to a full queue fails at once, and there is no event when there is a free
      // place.
      const isFull = CloudError.is(error) && isSystemError(error.cause, "EAGAIN");
      if (!isFull || systemClock.monotonic() > until) throw error;
      await systemClock.sleep(10);
    }
  }
}

async function withLimit<T>(work: Promise<T>, command: QmpCommand): Promise<T> {
  return await withTimeout(async () => await work, {
    limitMs: answerLimitMs,
    clock: systemClock,
    error: () => failure(command, `QEMU did not answer within ${answerLimitMs / 1000} s`),
  });
}

function ended(command: QmpCommand): CloudError {
  return failure(command, "QEMU has ended");
}

function failure({ execute }: QmpCommand, reason: string): CloudError {
  return new CloudError("CLOUD_UNAVAILABLE", `Cannot do "${execute}" on the machine: ${reason}`);
}
