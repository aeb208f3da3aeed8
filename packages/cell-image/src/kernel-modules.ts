/**
 * Lines of `modules.dep` for the given modules and all their dependencies.
 *
 * @param wanted module names. `-` and `_` are equivalent. A module built into the kernel has no lines
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
    // A module's line lists all its dependencies, including indirect ones.
    for (const needed of line.replace(":", "").split(" ")) {
      const neededLine = lines.get(needed);
      if (neededLine !== undefined) closure.set(needed, neededLine);
    }
  }
  return closure;
}

/** The kernel's name of a module: `kernel/drivers/char/hw_random/virtio-rng.ko` → `virtio_rng`. */
function moduleName(file: string): string {
  const base = file.slice(file.lastIndexOf("/") + 1);
  return base.replace(/\.ko(\.\w+)?$/, "").replaceAll("-", "_");
}
