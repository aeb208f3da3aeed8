import { OptionError, type Option } from "@kip/base";
import { parseCommand } from "../cli/parse-command.ts";
import { separateWords } from "../cli/separate-words.ts";
import { noteText, type PlacedNote } from "./placed-notes.ts";
import { readConfigFiles, type ReadConfig } from "./read-provider-config.ts";

const usage = `Usage: kip config check FILE [options]

Says whether kip can use a provider.yaml, and lists all mistakes in it by line. Changes nothing.

Exit code: 0 kip can use it, perhaps with warnings; 1 it cannot.

Example: kip config check provider.yaml`;

const options: readonly Option[] = [
  { flag: "output", type: "string", fallback: "text", help: "text or json" },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Runs `kip config`. */
export async function configCommand(args: readonly string[]): Promise<void> {
  const { words, flags } = separateWords(args);
  const values = parseCommand(usage, options, flags);
  if (!values) return;
  const [action, file, ...more] = words;
  if (action !== "check" || file === undefined || more.length > 0)
    throw new OptionError("OPTION_MISSING", "Cannot check: write kip config check FILE", {
      remedy: "See kip config --help",
    });
  const output = values.choice("output", ["text", "json"]);
  const found = await readConfigFiles(file);
  process.stdout.write(output === "json" ? resultJson(file, found) : resultText(file, found));
  process.exitCode = found.config ? 0 : 1;
}

function resultJson(file: string, { config, problems, notices }: ReadConfig): string {
  const result = { file, valid: config !== undefined, problems, warnings: notices };
  return `${JSON.stringify(result, undefined, 2)}\n`;
}

/** One line per problem or notice, in the format that editors and compilers use: `file:line: …`. */
function resultText(file: string, { config, problems, notices }: ReadConfig): string {
  const row = (kind: string, note: PlacedNote): string => {
    const ofFile = note.file ?? file;
    const place = note.line === undefined ? ofFile : `${ofFile}:${note.line}`;
    return `${place}: ${kind}: ${noteText(note, { withLine: false })}`;
  };
  const rows = [
    ...problems.map((note) => row("error", note)),
    ...notices.map((note) => row("warning", note)),
    config ? `${file} can be used` : `${file} cannot be used: ${problems.length} to correct`,
  ];
  return `${rows.join("\n")}\n`;
}
