import type { IncomingMessage } from "node:http";

/** Who asks. From a client certificate: its common name and its organisations. */
export interface KubeletUser {
  readonly name: string;
  readonly groups: readonly string[];
}

/** What is asked of the node, in the terms of a SubjectAccessReview on resource `nodes`. */
export interface KubeletAction {
  /** `get` or `create`; opening a stream is `create`, whatever the HTTP method. */
  readonly verb: "get" | "create";
  /**
   * Subresources of `nodes` that cover the request, the narrowest first (`pods`, then `proxy`):
   * a permission for any of them is enough.
   */
  readonly subresources: readonly string[];
  /** Path of the request without its query. */
  readonly path: string;
}

/** Finds out who asks; undefined leads to `401 Unauthorized`. */
export type KubeletAuthenticate = (request: IncomingMessage) => Promise<KubeletUser | undefined>;

/** Whether the user may do it; false leads to `403 Forbidden`, a rejection to 500. */
export type KubeletAuthorize = (user: KubeletUser, action: KubeletAction) => Promise<boolean>;
