import { decode } from "@kip/base";
import { QmpSession } from "./qmp-session.ts";

const shutdownData = decode.object({ reason: decode.optional(decode.string) });

/**
 * A connection to a running QEMU that only receives. It ends when the machine ends, so kip notices that without polling.
 *
 * A second connection, from another kip process, gets no reason, but also ends with the machine. Commands use a separate
 * socket: {@link runCommands}.
 */
export class ControlSocket {
  /** Resolves with QEMU's reason when the machine has ended. */
  readonly ended: Promise<string | undefined>;
  /** Resolves when QEMU's events arrive here. Fails if the machine ends earlier. */
  readonly subscribed: Promise<void>;
  readonly #session: QmpSession;
  #closedByUs = false;

  private constructor(session: QmpSession) {
    this.#session = session;
    this.subscribed = session.served;
    const ended = Promise.withResolvers<string | undefined>();
    this.ended = ended.promise;
    let reason: string | undefined;
    session.onEvent("SHUTDOWN", shutdownData, (data) => {
      reason = data.reason;
    });
    void session.closed.then(() => {
      if (!this.#closedByUs) ended.resolve(reason);
    });
    // Watching alone must not keep a process alive.
    session.unref();
  }

  /**
   * Connects to the control socket of a machine.
   *
   * @returns undefined if no QEMU listens there
   * @throws {CloudError} `CLOUD_UNAVAILABLE` if the socket cannot be used
   */
  static async connect(file: string): Promise<ControlSocket | undefined> {
    const session = await QmpSession.connect(file);
    return session && new ControlSocket(session);
  }

  /** Closes the connection. The machine keeps running. */
  close(): void {
    this.#closedByUs = true;
    this.#session.close();
  }
}
