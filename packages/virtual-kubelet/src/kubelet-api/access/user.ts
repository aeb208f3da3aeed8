import type { IncomingMessage } from "node:http";
import type { PeerCertificate, TLSSocket } from "node:tls";
import type { Clock } from "@kip/base";

/** The user of a request. */
export interface KubeletUser {
  /** For a client certificate: its common name. */
  readonly name: string;
  /** For a client certificate: its organisations. */
  readonly groups: readonly string[];
  readonly uid?: string | undefined;
  /** Other facts about a token's user from the API server. */
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** The requested action, in the terms of a SubjectAccessReview on the resource `nodes`. */
export interface KubeletAction {
  /** Derived from the HTTP method. Opening a stream is always `create`. */
  readonly verb: "get" | "create" | "update" | "patch" | "delete";
  /**
   * Subresources of `nodes` that cover the request, the narrowest first (`pods`, then `proxy`). Permission for any of them is
   * enough.
   */
  readonly subresources: readonly string[];
  /** The request's path without its query. */
  readonly path: string;
}

/** Authenticates a request. Undefined leads to `401 Unauthorized`. So does a rejection, which is also logged. */
export type KubeletAuthenticate = (request: IncomingMessage) => Promise<KubeletUser | undefined>;

/** Whether the user may do this. False leads to `403 Forbidden`, and a rejection to 500. */
export type KubeletAuthorize = (user: KubeletUser, action: KubeletAction) => Promise<boolean>;

/** Extended key usage "TLS Web Client Authentication": RFC 5280 section 4.2.1.12. */
const clientAuthUsage = "1.3.6.1.5.5.7.3.2";

/** Whether the TLS layer has verified a client's certificate against the client CA. */
export function hasClientCertificate(socket: Partial<TLSSocket>): boolean {
  return clientCertificate(socket) !== undefined;
}

/**
 * The user of a client certificate, if the TLS layer has verified it against the client CA. Refuses a certificate that has
 * expired since the handshake, because a connection may stay open for days.
 */
export async function certificateUser(
  request: IncomingMessage,
  clock: Clock,
): Promise<KubeletUser | undefined> {
  const certificate = clientCertificate(request.socket as Partial<TLSSocket>); // there may be none
  if (certificate === undefined || !(clock.now() < Date.parse(certificate.valid_to)))
    return undefined;
  const name = [certificate.subject.CN].flat()[0];
  const groups = [certificate.subject.O ?? []].flat();
  return name === undefined || name === "" ? undefined : { name, groups };
}

function clientCertificate(socket: Partial<TLSSocket>): PeerCertificate | undefined {
  if (socket.authorized !== true || socket.getPeerCertificate === undefined) return undefined;
  const certificate = socket.getPeerCertificate();
  return certificate.ext_key_usage?.includes(clientAuthUsage) ? certificate : undefined;
}

/** Allows the listed users. Without a list, allows every authenticated user. */
export function allowUsers(names: readonly string[] | undefined): KubeletAuthorize {
  return async (user) => names === undefined || names.includes(user.name);
}
