import type { Option } from "@kip/base";
import type { KeyRow } from "@kip/kip/config";

/** The tables of docs/configuration.md, by name. */
export function configurationTables(keys: readonly KeyRow[]): Readonly<Record<string, string>> {
  const sections = ["cells", "kubelet", "registries", "images", "cloud.local"];
  const clouds = ["cloud.aws", "cloud.gce", "cloud.azure"];
  const isIn = (path: string, names: readonly string[]): boolean =>
    names.some((name) => [`${name}.`, `${name}[`].some((start) => path.startsWith(start)));
  const used = keys.filter(({ replacedBy }) => replacedBy === undefined);
  const all = [...sections, ...clouds];
  const rest = used.filter(({ path }) => !isIn(path, all) && !path.startsWith("cloud."));
  return {
    "keys of the installation": keyTable([
      ...used.filter(({ path }) => isIn(path, sections)),
      ...rest,
    ]),
    "keys of other clouds": keyTable(used.filter(({ path }) => isIn(path, clouds))),
    "keys without effect": table(
      ["key", "instead"],
      keys.flatMap(({ path, replacedBy }) =>
        replacedBy === undefined ? [] : [[`\`${path}\``, replacedBy]],
      ),
    ),
  };
}

/** The tables of flags, by name. */
export function flagTables(options: readonly Option[]): Readonly<Record<string, string>> {
  const code = (text: string): string => `\`${text}\``;
  const names = (env: Option["env"] = []): readonly string[] =>
    typeof env === "string" ? [env] : env;
  return {
    flags: table(
      ["flag", "variable", "default", "meaning"],
      options
        .filter(({ hasNoEffect }) => hasNoEffect !== true)
        .map(({ flag, env, fallback, help }) => [
          code(`--${flag}`),
          names(env).map(code).join(", "),
          fallback === undefined ? "" : code(fallback),
          help,
        ]),
    ),
    "flags without effect": table(
      ["flag", "instead"],
      options
        .filter(({ hasNoEffect }) => hasNoEffect === true)
        .map(({ flag, help }) => [code(`--${flag}`), help]),
    ),
  };
}

/** The tables of annotations, by name. */
export function annotationTables(
  prefix: string,
  annotations: Readonly<
    Record<string, { expected: string; meaning: string; withoutEffect?: string | undefined }>
  >,
): Readonly<Record<string, string>> {
  const rows = Object.entries(annotations);
  return {
    annotations: table(
      ["annotation", "value", "meaning"],
      rows
        .filter(([, { withoutEffect }]) => withoutEffect === undefined)
        .map(([name, { expected, meaning }]) => [`\`${prefix}${name}\``, expected, meaning]),
    ),
    "annotations without effect": table(
      ["annotation", "why"],
      rows.flatMap(([name, { withoutEffect }]) =>
        withoutEffect === undefined ? [] : [[`\`${prefix}${name}\``, withoutEffect]],
      ),
    ),
  };
}

function keyTable(rows: readonly KeyRow[]): string {
  return table(
    ["key", "default", "meaning", "a change takes effect"],
    rows.map(({ path, fallback = "", meaning, reload }) => [
      `\`${path}\``,
      fallback,
      meaning,
      reload === "live" ? "at once" : "with a restart",
    ]),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
