import type { IncomingMessage } from "node:http";
import type { PeerCertificate, TLSSocket } from "node:tls";
import type { Clock } from "@kip/base";

/** The user who makes a request. */
export interface KubeletUser {
  /** From a client certificate: its common name. */
  readonly name: string;
  /** From a client certificate: its organisations. */
  readonly groups: readonly string[];
  readonly uid?: string | undefined;
  /** What else the API server knows of a token's user. */
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** What is asked of the node, in the terms of a SubjectAccessReview on resource `nodes`. */
export interface KubeletAction {
  /** From the HTTP method; opening a stream is `create`, whatever the method. */
  readonly verb: "get" | "create" | "update" | "patch" | "delete";
  /**
   * Subresources of `nodes` that cover the request, the narrowest first (`pods`, then `proxy`):
   * a permission for any of them is enough.
   */
  readonly subresources: readonly string[];
  /** Path of the request without its query. */
  readonly path: string;
}

/** Authenticates a request; undefined leads to `401 Unauthorized`, a rejection too, and to a line in the log. */
export type KubeletAuthenticate = (request: IncomingMessage) => Promise<KubeletUser | undefined>;

/** Whether the user may do it; false leads to `403 Forbidden`, a rejection to 500. */
export type KubeletAuthorize = (user: KubeletUser, action: KubeletAction) => Promise<boolean>;

/** Extended key usage "TLS Web Client Authentication": RFC 5280 section 4.2.1.12. */
const clientAuthUsage = "1.3.6.1.5.5.7.3.2";

/** Whether the TLS layer has verified a certificate for clients against the client CA. */
export function hasClientCertificate(socket: Partial<TLSSocket>): boolean {
  return clientCertificate(socket) !== undefined;
}

/**
 * The user a client certificate names, if the TLS layer has verified it against the client CA. One that has ended since the
 * handshake is not accepted: a connection may stay open for days.
 */
export async function certificateUser(
  request: IncomingMessage,
  clock: Clock,
): Promise<KubeletUser | undefined> {
  const certificate = clientCertificate(request.socket as Partial<TLSSocket>); // it may be none
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

/** Allows the users of a list; without a list, every authenticated user. */
export function allowUsers(names: readonly string[] | undefined): KubeletAuthorize {
  return async (user) => names === undefined || names.includes(user.name);
}
