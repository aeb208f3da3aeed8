import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import { hasClientCertificate } from "./access/user.ts";
import { HttpRefusal } from "./transport/answer.ts";
import type { KubeletLimits } from "./options.ts";

/**
 * Decides which clients may send a long request head (it contains the command of an exec), and limits the memory for all long
 * heads. A client without a certificate of the client CA gets the usual limit. One with a certificate gets the long limit, but
 * a certificate does not show what its owner may do. So only a limited number of connections may have the long limit before one
 * of their requests was authorised. A further one replaces the oldest.
 */
export class LongRequests {
  readonly #limits: KubeletLimits;
  /** Connections with the long limit and without an authorised request, the oldest first. */
  readonly #unproven = new Set<TLSSocket>();
  #heldBytes = 0;

  constructor(limits: KubeletLimits) {
    this.#limits = limits;
  }

  /** Limit for the request heads of a new connection, bytes. */
  headLimit(socket: TLSSocket): number {
    const { requestHeaderBytes, longRequestHeaderBytes, unprovenLongConnections } = this.#limits;
    if (!hasClientCertificate(socket)) return requestHeaderBytes;
    const [oldest] = this.#unproven;
    if (oldest && this.#unproven.size >= unprovenLongConnections) {
      this.#unproven.delete(oldest);
      oldest.destroy();
    }
    this.#unproven.add(socket);
    socket.once("close", () => this.#unproven.delete(socket));
    return longRequestHeaderBytes;
  }

  /**
   * Counts the head of an authorised request until the returned function is called.
   *
   * @throws HttpRefusal 429 if long heads already take too much memory
   */
  hold(request: IncomingMessage): () => void {
    this.#unproven.delete(request.socket as TLSSocket); // the server is a TLS server
    const bytes = headBytes(request);
    if (bytes <= this.#limits.requestHeaderBytes) return () => {};
    if (this.#heldBytes + bytes > this.#limits.longRequestBytes)
      throw new HttpRefusal(429, "too many long requests are under way", { "Retry-After": "1" });
    this.#heldBytes += bytes;
    return () => {
      this.#heldBytes -= bytes;
    };
  }
}

function headBytes({ url = "", rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, url.length);
}
