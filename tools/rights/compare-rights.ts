// Compares kip's roles with the requests that kip makes.
import type { PolicyRule } from "@kip/control-plane";
import type { Use } from "./read-audit-log.ts";

/** Rules that apply in one namespace or in all. */
export interface RoleRules {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  readonly rules: readonly PolicyRule[];
}

/** One verb for one resource. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly namespace: string | undefined;
  /** Names of the objects to which it applies. Undefined: all. */
  readonly names?: readonly string[] | undefined;
}

/** Differences between roles and requests. */
export interface Comparison {
  readonly used: readonly Right[];
  /** Permissions that no request needed. */
  readonly unused: readonly Right[];
  /** Permissions in a namespace that kip has in all namespaces anyway. */
  readonly redundant: readonly Right[];
  /** Requests that the roles do not allow. They were refused, or something else allowed them. */
  readonly missing: readonly Use[];
  /** Permissions for all names or all namespaces of which requests only used one: `get secrets: one name, kip-cell-ca`. */
  readonly wide: readonly string[];
}

/** Compares roles with requests. */
export function compareRights(roles: readonly RoleRules[], uses: readonly Use[]): Comparison {
  const rights = roles.flatMap(rightsOf);
  const everywhere = new Set(rights.filter(({ namespace }) => !namespace).map(rightText));
  const redundant = rights.filter(
    (right) =>
      right.namespace !== undefined &&
      everywhere.has(rightText({ ...right, namespace: undefined, names: undefined })),
  );
  const isUsed = (right: Right): boolean => uses.some((use) => covers(right, use));
  return {
    used: rights.filter(isUsed),
    unused: rights.filter((right) => !isUsed(right)),
    redundant,
    missing: uses.filter((use) => !rights.some((right) => covers(right, use))),
    wide: rights.flatMap((right) =>
      widths(
        right,
        uses.filter((use) => covers(right, use)),
      ),
    ),
  };
}

function widths(right: Right, uses: readonly Use[]): readonly string[] {
  const only = (what: "name" | "namespace"): readonly string[] => {
    const [first, ...others] = new Set(uses.map((use) => use[what]));
    if (first === undefined || others.length > 0) return [];
    return [`${rightText(right)}: one ${what}, ${first}`];
  };
  return [
    ...(right.names === undefined ? only("name") : []),
    ...(right.namespace === undefined ? only("namespace") : []),
  ];
}

/** As in `get pods`, `patch cells.kip.elotl.co/status`, `create secrets in kip-system`, `patch nodes (kip)`. */
export function rightText({ verb, group, resource, namespace, names }: Right): string {
  const [name, ...subresource] = resource.split("/");
  const full = [group === "" ? name : `${name}.${group}`, ...subresource].join("/");
  const where = namespace === undefined ? "" : ` in ${namespace}`;
  return `${verb} ${full}${where}${names === undefined ? "" : ` (${names.join(", ")})`}`;
}

function rightsOf({ namespace, rules }: RoleRules): readonly Right[] {
  return rules.flatMap(({ apiGroups, resources, verbs, resourceNames: names }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.map((verb) => ({ verb, group, resource, namespace, names })),
      ),
    ),
  );
}

function covers(right: Right, use: Use): boolean {
  return (
    right.verb === use.verb &&
    right.group === use.group &&
    right.resource === use.resource &&
    (right.namespace === undefined || right.namespace === use.namespace) &&
    (right.names === undefined || (use.name !== undefined && right.names.includes(use.name)))
  );
}
