import type { ServerHttp2Stream } from "node:http2";
import type { PodReport } from "@kip/agent-api";
import { reportLine } from "../state/report-line.ts";

/**
 * Interval of blank lines on an idle connection. A reader that has vanished does not confirm them, and its connection ends.
 * Kip finds out by pings whether the agent is alive, and each line costs it about as much as two pings.
 */
const blankLineMs = 60_000;

/**
 * Sends the pod's full report to all listeners whenever it has changed. Changes in one turn of the event loop result in one
 * line. A slow listener only gets the newest line.
 */
export class StatusStream implements Disposable {
  readonly #read: () => PodReport | undefined;
  readonly #listeners = new Map<ServerHttp2Stream, { isBehind: boolean }>();
  #line: string | undefined;
  #pending: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param read returns the current report, undefined before there is a pod */
  constructor(read: () => PodReport | undefined) {
    this.#read = read;
  }

  /** Call this when the report may have changed. */
  changed(): void {
    this.#pending ??= setImmediate(() => {
      this.#pending = undefined;
      this.#update();
    });
  }

  /** Sends the current report, and a new one after every change, until the stream is closed. */
  serve(stream: ServerHttp2Stream): void {
    stream.respond({ ":status": 200, "content-type": "application/x-ndjson" });
    this.#update();
    this.#listeners.set(stream, { isBehind: false });
    stream.once("close", () => {
      this.#listeners.delete(stream);
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    });
    stream.on("drain", () => {
      const listener = this.#listeners.get(stream);
      if (listener?.isBehind === true) this.#send(stream);
    });
    this.#send(stream);
    this.#timer ??= setInterval(() => {
      for (const one of this.#listeners.keys()) if (!one.writableNeedDrain) one.write("\n");
    }, blankLineMs).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    clearImmediate(this.#pending);
    for (const stream of this.#listeners.keys()) stream.destroy();
  }

  /** Creates the line of the current report, and sends it to all listeners if it differs from the last one. */
  #update(): void {
    const report = this.#read();
    const line = report && reportLine(report);
    if (line === undefined || line === this.#line) return;
    this.#line = line;
    for (const stream of this.#listeners.keys()) this.#send(stream);
  }

  #send(stream: ServerHttp2Stream): void {
    const listener = this.#listeners.get(stream);
    if (!listener || stream.destroyed || this.#line === undefined) return;
    listener.isBehind = stream.writableNeedDrain;
    if (!listener.isBehind) stream.write(this.#line);
  }
}
