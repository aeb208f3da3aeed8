import { deleteCommand } from "./change/delete.ts";
import { createCommand, updateCommand } from "./change/write-pods.ts";
import type { Command } from "./cli/command.ts";
import { completionCommand } from "./completion/completion.ts";
import { costCommand } from "./cost/cost.ts";
import { dumpCommand } from "./dump/dump.ts";
import { explainCommand } from "./explain/explain.ts";
import { getCommand } from "./get/get.ts";
import { consoleCommand } from "./pod/console.ts";
import { attachCommand, execCommand } from "./pod/exec.ts";
import { logsCommand } from "./pod/logs.ts";
import { replacedCommands } from "./replaced-commands.ts";
import { topCommand } from "./top/top.ts";
import { webCommand } from "./web/web.ts";
import { versionCommand } from "./version.ts";

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [
  getCommand,
  explainCommand,
  costCommand,
  topCommand,
  dumpCommand,
  webCommand,
  logsCommand,
  consoleCommand,
  execCommand,
  attachCommand,
  createCommand,
  updateCommand,
  deleteCommand,
  versionCommand,
  completionCommand,
  ...replacedCommands,
];
