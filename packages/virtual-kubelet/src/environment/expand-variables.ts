/**
 * Expands `$(NAME)` references as Kubernetes does for `env`, `command`, `args` and `subPathExpr`:
 * `$$` is a dollar sign, a reference to an unknown variable stays as it is, nothing is expanded twice.
 *
 * @param text what may hold references
 * @param variables by name
 * @see https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
 */
export function expandVariables(text: string, variables: ReadonlyMap<string, string>): string {
  // One pass from the left: "$$" first, so that "$$(A)" is the text "$(A)".
  return text.replace(/\$\$|\$\(([^)]*)\)/gs, (whole, name: string | undefined) => {
    if (name === undefined) return "$";
    return variables.get(name) ?? whole;
  });
}
