import type { ServerHttp2Stream } from "node:http2";
import type { PodReport } from "@kip/agent-api";
import { reportLine } from "../state/report-line.ts";

/** A sign of life on a connection where nothing changes. */
const blankLineMs = 10_000;

/**
 * Sends the pod's report to everybody who listens, whole, whenever it changed. Changes of one turn
 * of the event loop make one line; a listener that is slow gets the newest line only.
 */
export class StatusStream implements Disposable {
  readonly #read: () => PodReport | undefined;
  readonly #listeners = new Map<ServerHttp2Stream, { isBehind: boolean }>();
  #line: string | undefined;
  #pending: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param read gives the present report, undefined before there is a pod */
  constructor(read: () => PodReport | undefined) {
    this.#read = read;
  }

  /** Says that the report may have changed. */
  changed(): void {
    this.#pending ??= setImmediate(() => {
      this.#pending = undefined;
      this.#update();
    });
  }

  /** Sends the present report and then every change until the stream is closed. */
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

  /** Makes the line of the present report, and sends it to all if it is another than before. */
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
