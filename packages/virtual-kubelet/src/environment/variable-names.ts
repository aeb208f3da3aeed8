/**
 * Whether a name may be a variable of a container: printable ASCII without "=", the rule since
 * Kubernetes 1.34 (before, C identifiers with dots and dashes).
 */
export function isVariableName(name: string): boolean {
  return /^[\x20-\x3c\x3e-\x7e]+$/.test(name);
}
