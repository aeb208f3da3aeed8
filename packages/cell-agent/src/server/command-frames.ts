import { decode } from "@kip/base";
import { decodeRequest, invalidRequest } from "./answers.ts";

/** Maximum size of a command in frames, bytes. A kubelet accepts 1 MiB, which JSON makes at most six times as long. */
const maxBytes = 8 * 1024 * 1024;

const decodeCommand = decode.list(decode.string);

/** The command of an exec that is sent in the first frames of its body. */
export class CommandFrames {
  /**
   * Resolves with the words when the last frame has arrived.
   *
   * @throws {AgentError} code `AGENT_REQUEST_INVALID`
   */
  readonly command: Promise<readonly string[]>;
  readonly #settle = Promise.withResolvers<readonly string[]>();
  #parts: Buffer[] = [];
  #bytes = 0;

  constructor() {
    this.command = this.#settle.promise;
    this.command.catch(() => {}); // an exec that failed earlier does not await it
  }

  /** Adds the payload of a frame. An empty one ends the command. */
  push(payload: Buffer): void {
    this.#bytes += payload.length;
    if (this.#bytes > maxBytes) return this.#refuse("its command is too long");
    if (payload.length > 0) return void this.#parts.push(payload);
    const text = Buffer.concat(this.#parts).toString();
    this.#parts = [];
    try {
      const command = decodeRequest(() => decodeCommand(JSON.parse(text), "command"));
      if (command.length === 0) this.#refuse("no command");
      else this.#settle.resolve(command);
    } catch (error) {
      this.#refuse("its command is not a list of words", error);
    }
  }

  /** Call this at the end of the body. */
  end(): void {
    this.#refuse("its body ended within the command");
  }

  #refuse(reason: string, cause?: unknown): void {
    this.#parts = [];
    this.#settle.reject(invalidRequest(reason, cause)); // no effect if it is already settled
  }
}
