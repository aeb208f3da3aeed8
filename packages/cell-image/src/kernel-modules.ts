/**
 * Files of the wanted modules and of all they depend on, in the order in which they can be loaded.
 *
 * @param wanted module names, `-` and `_` alike; one that is built into the kernel gives nothing
 * @param modulesDep content of `modules.dep`: each line is a file, a colon, and its dependencies, the deepest last
 * @see modules.dep(5)
 */
export function loadOrder(wanted: readonly string[], modulesDep: string): readonly string[] {
  const byName = new Map<string, readonly string[]>();
  for (const line of modulesDep.split("\n")) {
    const [file = "", dependencies = ""] = line.split(":");
    if (file === "") continue;
    const needed = dependencies
      .trim()
      .split(" ")
      .filter((text) => text !== "");
    byName.set(moduleName(file), [...needed.reverse(), file]);
  }
  return [...new Set(wanted.flatMap((name) => byName.get(moduleName(name)) ?? []))];
}

/** The name as the kernel knows it: `kernel/drivers/char/hw_random/virtio-rng.ko` → `virtio_rng`. */
function moduleName(file: string): string {
  const base = file.slice(file.lastIndexOf("/") + 1);
  return base.replace(/\.ko(\.\w+)?$/, "").replaceAll("-", "_");
}
