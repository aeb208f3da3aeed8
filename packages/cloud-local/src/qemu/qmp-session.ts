import { createConnection, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { decode, hasCode } from "@kip/base";
import { CloudError } from "@kip/cloud";

const message = decode.object({
  QMP: decode.optional(decode.unknownValue),
  event: decode.optional(decode.string),
  data: decode.optional(decode.unknownValue),
  id: decode.optional(decode.integer),
  error: decode.optional(decode.object({ class: decode.string, desc: decode.string })),
});

/** A command as QEMU takes it. */
export interface QmpCommand {
  readonly execute: string;
  readonly arguments?: Readonly<Record<string, unknown>> | undefined;
}

/** How long one command may take, and how long QEMU may serve others before it serves us. */
const answerLimitMs = 10_000;

/** Many times what QEMU answers, UTF-16 code units. */
const maxLineLength = 1_048_576;

/** What is read at once, UTF-16 code units: many times what QEMU says in a second. Above it, reading pauses. */
const burstLength = 1_048_576;
/** How long reading pauses, milliseconds: a guest that has broken into QEMU must not keep this process busy. */
const pauseMs = 500;

type EventListener = (event: string, data: unknown) => void;

interface Pending {
  readonly command: QmpCommand;
  readonly answer: PromiseWithResolvers<unknown>;
}

/**
 * A connection to one of QEMU's control sockets.
 *
 * QEMU serves one connection per socket at a time; a second one waits in the queue and hears nothing
 * until the first is closed, but ends with the machine all the same.
 *
 * @see https://www.qemu.org/docs/master/interop/qmp-spec.html
 */
export class QmpSession {
  /** Resolves when QEMU serves this connection: from here on it tells its events and takes commands. */
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
    this.served.catch(() => {}); // its waiters see it
    const brake = new Brake(socket);
    let rest = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      brake.take(text.length);
      // Looks at new text alone: a line may come letter by letter.
      const lines = text.includes("\n") ? (rest + text).split("\n") : [rest + text];
      rest = lines.pop() ?? "";
      // A guest may have broken into QEMU. The end of a line whose beginning is dropped cannot be parsed and is ignored.
      if (rest.length > maxLineLength) rest = "";
      for (const line of lines) {
        const value = parseJson(line);
        if (isGreeting(value)) served.resolve(this.#leaveFirstMode());
        else this.#take(value);
      }
    });
    // An error is followed by "close", which is what counts.
    socket.on("error", () => {});
    socket.on("close", () => {
      brake.release();
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
      resolve(new QmpSession(socket));
    });
    return await promise;
  }

  /**
   * Runs a command and returns what QEMU answered.
   *
   * @throws {CloudError} `CLOUD_UNAVAILABLE` with QEMU's words (fact `qemuClass`) if it refuses, ends, or
   * does not answer within 10 s
   */
  async execute(execute: string, args?: Readonly<Record<string, unknown>>): Promise<unknown> {
    const command: QmpCommand = { execute, arguments: args };
    await withLimit(this.served, command);
    return await this.#send(command);
  }

  /**
   * Calls `listener` for each event of this name until the returned function is called. An event that cannot be decoded is
   * ignored: a guest may have broken into QEMU.
   */
  onEvent<T>(event: string, decoder: decode.Decoder<T>, listener: (data: T) => void): () => void {
    const own: EventListener = (name, data) => {
      if (name !== event) return;
      const decoded = tryDecode(decoder, data);
      if (decoded) listener(decoded.value);
    };
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** A session alone must not keep this process alive. */
  unref(): void {
    this.#socket.unref();
  }

  /** Lets go of the machine, which runs on. */
  close(): void {
    this.#socket.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** QEMU begins in a mode in which it sends no events and takes no command but this. */
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

  #take(value: unknown): void {
    const parsed = parseMessage(value);
    if (parsed?.event !== undefined) {
      for (const listener of this.#listeners) listener(parsed.event, parsed.data);
      return;
    }
    const pending = parsed?.id === undefined ? undefined : this.#pending.get(parsed.id);
    if (parsed?.id === undefined || !pending) return;
    this.#pending.delete(parsed.id);
    if (parsed.error) pending.answer.reject(refused(pending.command, parsed.error));
    else pending.answer.resolve((value as { readonly return?: unknown }).return); // decoded above
  }
}

/** Pauses a socket that sends more than {@link burstLength} within {@link pauseMs}. */
class Brake {
  readonly #socket: Socket;
  #length = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  take(length: number): void {
    this.#length += length;
    if (this.#length > burstLength) this.#socket.pause();
    this.#timer ??= setTimeout(() => {
      this.release();
      this.#socket.resume();
    }, pauseMs).unref();
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#length = 0;
  }
}

/**
 * Runs commands on a machine, one after the other, over its command socket (`files.command`), and
 * returns their answers. Any process may do so at any time: it waits for its turn.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with QEMU's words; commands after the failed one are not run
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
 * A session on the command socket, for those who also wait for events. Close it soon: others wait.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if the machine does not run or serves others for over 10 s
 */
export async function openCommands(commandSocket: string): Promise<QmpSession> {
  const until = performance.now() + answerLimitMs;
  for (;;) {
    try {
      const session = await QmpSession.connect(commandSocket);
      if (session) return session;
      throw new CloudError("CLOUD_UNAVAILABLE", "Cannot control the machine: it does not run");
    } catch (error) {
      // QEMU's queue takes two. A connection to a full one fails at once, and there is no event when
      // there is room again.
      const isFull = error instanceof CloudError && hasCode(error.cause, "EAGAIN");
      if (!isFull || performance.now() > until) throw error;
      await delay(10);
    }
  }
}

async function withLimit<T>(work: Promise<T>, command: QmpCommand): Promise<T> {
  const limit = Promise.withResolvers<never>();
  const timer = setTimeout(() => limit.reject(noAnswer(command)), answerLimitMs);
  try {
    return await Promise.race([work, limit.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function noAnswer(command: QmpCommand): CloudError {
  return failure(command, `QEMU did not answer within ${answerLimitMs / 1000} s`);
}

function ended(command: QmpCommand): CloudError {
  return failure(command, "QEMU has ended");
}

function refused(
  command: QmpCommand,
  error: { readonly class: string; readonly desc: string },
): CloudError {
  return failure(command, error.desc, { qemuClass: error.class });
}

function failure(
  { execute }: QmpCommand,
  reason: string,
  facts: Readonly<Record<string, unknown>> = {},
): CloudError {
  return new CloudError("CLOUD_UNAVAILABLE", `Cannot do "${execute}" on the machine: ${reason}`, {
    facts: { command: execute, ...facts },
  });
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

function isGreeting(value: unknown): boolean {
  return parseMessage(value)?.QMP !== undefined;
}

function parseMessage(value: unknown): decode.Decoded<typeof message> | undefined {
  return tryDecode(message, value)?.value;
}

function tryDecode<T>(
  decoder: decode.Decoder<T>,
  value: unknown,
): { readonly value: T } | undefined {
  try {
    return { value: decoder(value, "QMP") };
  } catch {
    return undefined; // of another shape
  }
}
