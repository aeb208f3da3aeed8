// What kip asked of the API server, out of an audit log.
import { decode } from "@kip/base";

/** A request for a resource, as RBAC sees it. */
export interface Use {
  readonly verb: string;
  /** `""` is the core group. */
  readonly group: string;
  /** With its subresource: `pods/status`. */
  readonly resource: string;
  readonly namespace: string | undefined;
  /** Undefined: RBAC sees none, as where an object is posted, or where all are listed. */
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
 * The requests of a log, each once. A request as another user stands for the right to impersonate that user and its groups: what
 * that user may do is for the API server's Node authorizer to say. Paths outside of resources are left out: every client may read the version and the
 * list of resources. A line that has not been written to its end is left out, too.
 *
 * @param text one event a line
 */
export function readAuditLog(text: string): readonly Use[] {
  const uses = new Map<string, Use>();
  for (const line of text.split("\n").slice(0, -1)) {
    for (const use of usesOf(decodeEvent(JSON.parse(line), ""))) uses.set(JSON.stringify(use), use);
  }
  return [...uses.values()];
}

/** What a request as `system:node:<name>`, in the group `system:nodes`, needs of a role. */
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
    // The log has the name of a posted object, too: it is in the body, which RBAC does not see.
    name: verb === "create" ? undefined : of.name,
    isAllowed: annotations?.["authorization.k8s.io/decision"] !== "forbid",
  };
  // Server-side apply of an object that is not there needs the right to create it, which has no event of its own.
  const isCreated = verb === "patch" && responseStatus?.code === 201;
  return isCreated ? [use, { ...use, verb: "create" }] : [use];
}
