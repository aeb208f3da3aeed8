import { decode } from "@kip/base";
import { QmpSession } from "./qmp-session.ts";

const shutdownData = decode.object({ reason: decode.optional(decode.string) });

/**
 * A connection to a running QEMU that listens only. Its end is the machine's end: that is how kip
 * notices, without looking again and again.
 *
 * A second connection (another kip process) hears nothing of the reason, but ends with the machine all
 * the same. Commands have a socket of their own: {@link runCommands}.
 */
export class ControlSocket {
  /** Resolves with what QEMU said of the reason, when the machine has ended. */
  readonly ended: Promise<string | undefined>;
  /** Resolves when QEMU tells its events here; fails if the machine ends before. */
  readonly heard: Promise<void>;
  readonly #session: QmpSession;
  #closedByUs = false;

  private constructor(session: QmpSession) {
    this.#session = session;
    this.heard = session.served;
    const ended = Promise.withResolvers<string | undefined>();
    this.ended = ended.promise;
    let reason: string | undefined;
    session.onEvent("SHUTDOWN", shutdownData, (data) => {
      reason = data.reason;
    });
    void session.closed.then(() => {
      if (!this.#closedByUs) ended.resolve(reason);
    });
    // A watch alone must not keep a process alive.
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

  /** Lets go of the machine, which runs on. */
  close(): void {
    this.#closedByUs = true;
    this.#session.close();
  }
}
