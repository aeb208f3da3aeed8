// Makes the tables of docs/configuration.md and docs/provider.schema.json from the tables in the code.
//   node tools/generate-configuration.ts            writes them
//   node tools/generate-configuration.ts --check    fails if they differ from what is committed
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { format } from "prettier";
import { annotationPrefix, podAnnotations } from "@kip/kip/annotations";
import { jsonSchema, keyRows, providerKeys } from "@kip/kip/config";
import { providerOptions } from "../apps/kip/src/provider/provider-options.ts";
import { annotationTables, configurationTables, flagTables } from "./configuration-tables.ts";

const page = "docs/configuration.md";
const schemaFile = "docs/provider.schema.json";
const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });

const outputs = new Map([
  [page, pageText()],
  [schemaFile, await schemaText()],
]);
for (const [file, text] of outputs) {
  if (!values.check) writeFileSync(file, text);
  else if (readFileSync(file, "utf8") !== text) {
    console.error(`${file} is not up to date: run node tools/generate-configuration.ts`);
    process.exitCode = 1;
  }
}

/** The page with regenerated tables. The rest is written by hand. */
function pageText(): string {
  let text = readFileSync(page, "utf8");
  const tables = {
    ...configurationTables(keyRows(providerKeys)),
    ...flagTables(providerOptions),
    ...annotationTables(annotationPrefix, podAnnotations),
  };
  for (const [name, table] of Object.entries(tables)) {
    const [begin, end] = [`<!-- ${name}: generated -->\n`, `<!-- ${name}: end -->`];
    const from = text.indexOf(begin);
    const to = text.indexOf(end);
    if (from < 0 || to < from) throw new Error(`${page} has no place for the table ${name}`);
    text = `${text.slice(0, from + begin.length)}\n${table}\n\n${text.slice(to)}`;
  }
  return text;
}

async function schemaText(): Promise<string> {
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "provider.yaml of Kip",
    ...jsonSchema(providerKeys),
  };
  return await format(JSON.stringify(schema), { parser: "json", printWidth: 100 });
}
