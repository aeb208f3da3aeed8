// An agent in its own process, for tests that kill it. Argument: a JSON file with its options. Prints its port when it listens.
import { readFileSync } from "node:fs";
import { decodeCellIdentity } from "@kip/agent-api";
import { createLogger, decode } from "@kip/base";
import { startAgent } from "../src/index.ts";

const decodeOptions = decode.object({
  identity: decodeCellIdentity,
  stateDir: decode.string,
  runDir: decode.string,
  port: decode.integer,
});

const options = decodeOptions(JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")), "options");
const agent = await startAgent({
  ...options,
  agentVersion: "test",
  host: "127.0.0.1",
  logger: createLogger({ level: "debug" }),
});
console.log(agent.port);
