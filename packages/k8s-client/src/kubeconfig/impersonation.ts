import { decode } from "@kip/base";
import { K8sError } from "../errors.ts";

/** The impersonation keys of a kubeconfig user. */
const decodeImpersonation = decode.object({
  as: decode.optional(decode.string),
  "as-uid": decode.optional(decode.string),
  "as-groups": decode.optional(decode.list(decode.string)),
  "as-user-extra": decode.optional(decode.map(decode.list(decode.string))),
});

/**
 * The impersonation headers of a kubeconfig user, encoded as in client-go: "%", and bytes of an extra key that are invalid in a
 * header name, become percent escapes.
 *
 * @param user of the kubeconfig file
 * @throws {K8sError} code `KUBECONFIG_INVALID`: ignoring invalid keys would make requests as another user
 * @see https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
 */
export function impersonationHeaders(
  user: unknown,
): Readonly<Record<string, string | readonly string[]>> {
  const {
    as: name = "",
    "as-uid": uid = "",
    "as-groups": groups = [],
    "as-user-extra": extra = {},
  } = decodeImpersonation(user, "user");
  const extras = Object.entries(extra).filter(([, values]) => values.length > 0);
  if (name === "" && (uid !== "" || groups.length > 0 || extras.length > 0))
    throw invalid('"as-uid", "as-groups" and "as-user-extra" need "as"');
  return {
    ...(name !== "" && { "Impersonate-User": headerValue(name) }),
    ...(uid !== "" && { "Impersonate-Uid": headerValue(uid) }),
    ...(groups.length > 0 && { "Impersonate-Group": groups.map(headerValue) }),
    ...Object.fromEntries(
      extras.map(([key, values]) => [
        `Impersonate-Extra-${escapeKey(key)}`,
        values.map(headerValue),
      ]),
    ),
  };
}

/** Node sends one byte per character, and the server expects UTF-8. */
function headerValue(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.some((byte) => byte < 0x20 || byte === 0x7f))
    throw invalid("a name to impersonate has control characters");
  return bytes.toString("latin1");
}

/** Bytes allowed in a header name (RFC 9110 section 5.6.2), without "%". */
const keyBytes = /[!#$&'*+\-.^_`|~0-9A-Za-z]/;

function escapeKey(key: string): string {
  return [...Buffer.from(key)]
    .map((byte) => [byte, String.fromCodePoint(byte)] as const)
    .map(([byte, character]) =>
      keyBytes.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`,
    )
    .join("");
}

function invalid(reason: string): K8sError {
  return new K8sError("KUBECONFIG_INVALID", `Cannot act as another user: ${reason}`);
}
