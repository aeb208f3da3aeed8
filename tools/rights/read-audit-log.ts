// Reads kip's requests to the API server from an audit log.
import { decode } from "@kip/base";

/** A request for a resource, in RBAC's terms. */
export interface Use {
  readonly verb: string;
  /** `""` is the core group. */
  readonly group: string;
  /** Includes the subresource, as in `pods/status`. */
  readonly resource: string;
  readonly namespace: string | undefined;
  /** Undefined if RBAC does not get a name, as when an object is created or all objects are listed. */
  readonly name: string | undefined;
  readonly isAllowed: boolean;
}

const { integer, object, optional, string } = decode;
const decodeEvent = object({
  verb: string,
  objectRef: optional(
    object({
      resource: optional(string),
      subresource: optional(string),
      apiGroup: optional(string),
      namespace: optional(string),
      name: optional(string),
    }),
  ),
  responseStatus: optional(object({ code: optional(integer) })),
  impersonatedUser: optional(object({ username: optional(string) })),
  annotations: optional(object({ "authorization.k8s.io/decision": optional(string) })),
});

/**
 * The distinct requests in a log. A request as another user counts as impersonating that user and its groups. What that user
 * may do is decided by the API server's Node authorizer. Paths that are not resources are left out, because every client may
 * read the version and the list of resources. An incomplete line is also left out.
 *
 * @param text one event per line
 */
export function readAuditLog(text: string): readonly Use[] {
  const uses = new Map<string, Use>();
  for (const line of text.split("\n").slice(0, -1)) {
    for (const use of usesOf(decodeEvent(JSON.parse(line), ""))) uses.set(JSON.stringify(use), use);
  }
  return [...uses.values()];
}

/** The permissions that a role needs for a request as `system:node:<name>` in the group `system:nodes`. */
function impersonation(username: string | undefined): readonly Use[] {
  const names = { users: username, groups: "system:nodes" };
  return Object.entries(names).map(([resource, name]) => ({
    verb: "impersonate",
    group: "",
    resource,
    namespace: undefined,
    name,
    isAllowed: true,
  }));
}

function usesOf(event: decode.Decoded<typeof decodeEvent>): readonly Use[] {
  const { verb, objectRef: of, responseStatus, annotations } = event;
  if (of?.resource === undefined) return [];
  const { impersonatedUser: other } = event;
  if (other !== undefined) return impersonation(other.username);
  const use = {
    verb,
    group: of.apiGroup ?? "",
    resource: of.subresource === undefined ? of.resource : `${of.resource}/${of.subresource}`,
    namespace: of.namespace,
    // The log also has the name of a created object. It is in the request's body, which RBAC does not see.
    name: verb === "create" ? undefined : of.name,
    isAllowed: annotations?.["authorization.k8s.io/decision"] !== "forbid",
  };
  // Server-side apply of an object that does not exist needs permission to create it, for which there is no separate event.
  const isCreated = verb === "patch" && responseStatus?.code === 201;
  return isCreated ? [use, { ...use, verb: "create" }] : [use];
}
