import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isSystemError, pause, portOf, systemClock, untilAborted } from "@kip/base";
import type { Command, CommandContext } from "../cli/command.ts";
import { clusterOptions, helpOption, toggle } from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { KipctlError } from "../errors.ts";
import { isOwnHost } from "./own-host.ts";
import { pageFiles } from "./page.ts";
import { Pages } from "./pages.ts";
import { watchState, type WatchedState } from "./watch-state.ts";
import { webState } from "./web-state.ts";

export const webCommand: Command = {
  name: "web",
  synopsis: "[options]",
  summary:
    "serve a page of cells, their starts and prices, and of what waits and why, on this computer",
  details: `At http://127.0.0.1:PORT, for this computer alone, until it is interrupted. The page changes nothing, and follows the cluster by watches of cells, pods
and nodes with your kubeconfig: who can open it sees what you may see of them.`,
  options: [
    { flag: "port", type: "string", fallback: "8010", help: "port; 0 takes a free one" },
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: ["web", "web --port=0 --context=prod"],
  run: web,
};

const host = "127.0.0.1";
/** Minimum time between two messages to a page, milliseconds. Many pods may start at once. */
const quietMs = 250;
/** How often to update a page's ages and costs without a change, milliseconds. */
const refreshMs = 10_000;

async function web(context: CommandContext): Promise<void> {
  expectWords(context.words, [], "web");
  const port = context.options.integer("port", { min: 0, max: 65_535 });
  const { client } = await context.cluster();
  const server = await listen(port);
  const own = portOf(server);
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  let changed = new AbortController();
  const state = watchState(client, { signal, onChange: () => changed.abort() });
  const pages = new Pages(() => messageOf(state));
  server.on("request", (request, response) => answer({ request, response, own, state, pages }));
  try {
    await untilAborted(state.synced, signal);
    context.out(`http://${host}:${own}/\n`);
    while (await nextMessage(() => changed.signal, signal)) {
      changed = new AbortController();
      pages.send();
    }
  } finally {
    stop.abort();
    server.close();
    server.closeAllConnections();
  }
}

/** Waits for a change or a refresh. False when the program should end. */
async function nextMessage(changed: () => AbortSignal, signal: AbortSignal): Promise<boolean> {
  await pause(quietMs, systemClock, signal);
  await pause(refreshMs, systemClock, AbortSignal.any([signal, changed()]));
  return !signal.aborted;
}

async function listen(port: number): Promise<Server> {
  const server = createServer();
  try {
    server.listen(port, host);
    await once(server, "listening");
    return server;
  } catch (error) {
    if (!isSystemError(error, "EADDRINUSE")) throw error;
    throw new KipctlError("PORT_TAKEN", `Cannot serve at port ${port}: another program has it`, {
      cause: error,
      remedy: "Give --port=0 for a free one",
    });
  }
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly own: number;
  readonly state: WatchedState;
  readonly pages: Pages;
}

function answer({ request, response, own, state, pages }: Exchange): void {
  for (const [name, value] of Object.entries(safety)) response.setHeader(name, value);
  if (!isOwnHost(request.headers.host, own))
    return refuse(response, 403, `Open http://${host}:${own}/`);
  if (request.method !== "GET" && request.method !== "HEAD")
    return refuse(response, 405, "This page changes nothing");
  const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
  if (path === "/state.json") {
    response.setHeader("content-type", "application/json");
    return void response.end(JSON.stringify(webState(state.facts(), Date.now())));
  }
  if (path === "/events") {
    response.writeHead(200, { "content-type": "text/event-stream" });
    return pages.add(response);
  }
  const file = Object.hasOwn(pageFiles, path) ? pageFiles[path] : undefined;
  if (!file) return refuse(response, 404, "There is no such page");
  response.setHeader("content-type", file.type);
  response.end(file.text);
}

/** No content from other origins, and no framing by other sites. */
const safety = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
};

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" });
  response.end(`${text}\n`);
}

function messageOf(state: WatchedState): string {
  return `data: ${JSON.stringify(webState(state.facts(), Date.now()))}\n\n`;
}
