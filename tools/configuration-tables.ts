import type { Option } from "@kip/base";
import type { KeyRow } from "@kip/kip/config";

/** The sections of `provider.yaml`. Each has a table. */
const sections = [
  "cells",
  "kubelet",
  "registries",
  "images",
  "cloud.local",
  "cloud.aws",
  "cloud.gce",
  "cloud.azure",
];

/** The tables of docs/configuration.md, by name. */
export function configurationTables(keys: readonly KeyRow[]): Readonly<Record<string, string>> {
  const isIn = (path: string, section: string): boolean =>
    [".", "["].some((next) => path.startsWith(`${section}${next}`));
  const used = keys.filter(({ replacedBy }) => replacedBy === undefined);
  const rest = used.filter(
    ({ path }) => !path.startsWith("cloud.") && !sections.some((section) => isIn(path, section)),
  );
  const tables = sections.map((section) => [
    `keys of ${section}`,
    keyTable(used.filter(({ path }) => isIn(path, section))),
  ]);
  return {
    ...Object.fromEntries(tables),
    "other keys": keyTable(rest),
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
    ["key", "default", "meaning", "change applies"],
    rows.map(({ path, fallback = "", meaning, reload }) => [
      `\`${path}\``,
      fallback,
      meaning,
      reload === "live" ? "at once" : "at restart",
    ]),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
