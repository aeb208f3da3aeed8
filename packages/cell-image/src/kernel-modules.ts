/**
 * Lines of `modules.dep` for the wanted modules and for all they depend on.
 *
 * @param wanted module names, `-` and `_` alike; one that is built into the kernel gives nothing
 * @param modulesDep content of `modules.dep`: each line is a file, a colon, and its dependencies
 * @returns file → its line, each once
 * @see modules.dep(5)
 */
export function moduleClosure(
  wanted: readonly string[],
  modulesDep: string,
): ReadonlyMap<string, string> {
  const lines = new Map<string, string>();
  for (const line of modulesDep.split("\n")) {
    const [file = ""] = line.split(":");
    if (file !== "") lines.set(file, line);
  }
  const names = wanted.map(moduleName);
  const closure = new Map<string, string>();
  for (const [file, line] of lines) {
    if (!names.includes(moduleName(file))) continue;
    // A module's line holds all its dependencies, the indirect ones too.
    for (const needed of line.replace(":", "").split(" ")) {
      const neededLine = lines.get(needed);
      if (neededLine !== undefined) closure.set(needed, neededLine);
    }
  }
  return closure;
}

/** The name as the kernel knows it: `kernel/drivers/char/hw_random/virtio-rng.ko` → `virtio_rng`. */
function moduleName(file: string): string {
  const base = file.slice(file.lastIndexOf("/") + 1);
  return base.replace(/\.ko(\.\w+)?$/, "").replaceAll("-", "_");
}
