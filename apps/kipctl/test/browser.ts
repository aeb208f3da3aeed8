// Chromium without a window, as Debian has it, by its debugging protocol.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

const programs = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

/** Path of the browser; undefined: none is installed. */
export const browserProgram = programs.find((each) => existsSync(each));

/** A page in a browser of its own. */
export interface BrowserPage extends AsyncDisposable {
  /** The value of an expression in the page; a promise is waited for. */
  evaluate(expression: string): Promise<unknown>;
  /** A picture of all of the page, in a window of a width in pixels: PNG. */
  screenshot(width: number): Promise<Buffer>;
  /** What the page has written to its console, and errors in it. */
  readonly problems: readonly string[];
}

interface Answer {
  readonly id?: number;
  readonly method?: string;
  readonly params?: object;
  readonly result?: {
    readonly result?: { readonly value?: unknown };
    readonly exceptionDetails?: object;
    readonly data?: string;
  };
}

/** Opens a page. */
export async function openPage(program: string, url: string): Promise<BrowserPage> {
  const profile = mkdtempSync(path.join(tmpdir(), "kip-browser-"));
  // Tests run as root, in which case its sandbox is refused; the page is our own.
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"];
  const child = spawn(program, [...flags, `--user-data-dir=${profile}`, "about:blank"], {
    stdio: ["ignore", "ignore", "pipe"],
    // Debian's program is a script that starts another one: both are ended.
    detached: true,
  });
  const close = async (): Promise<void> => {
    const gone = once(child, "exit");
    if (child.exitCode === null && child.pid !== undefined) {
      process.kill(-child.pid, "SIGKILL");
      await gone;
    }
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    const endpoint = new URL(await endpointOf(child.stderr));
    const list = await fetch(`http://${endpoint.host}/json/list`);
    const [target] = (await list.json()) as { webSocketDebuggerUrl: string }[]; // its protocol's
    const socket = new WebSocket(target?.webSocketDebuggerUrl ?? "");
    await once(socket, "open");
    const calls = new Map<number, (answer: Answer) => void>();
    const problems: string[] = [];
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(String(data)) as Answer;
      if (message.id !== undefined) calls.get(message.id)?.(message);
      else if (/exceptionThrown|consoleAPICalled|entryAdded/.test(message.method ?? ""))
        problems.push(JSON.stringify(message.params));
    });
    const call = async (method: string, params: object = {}): Promise<Answer> =>
      await new Promise((resolve) => {
        const id = calls.size + 1;
        calls.set(id, resolve);
        socket.send(JSON.stringify({ id, method, params }));
      });
    for (const domain of ["Runtime", "Log", "Page"]) await call(`${domain}.enable`);
    await call("Page.navigate", { url });
    const evaluate = async (expression: string): Promise<unknown> => {
      const options = { expression, awaitPromise: true, returnByValue: true };
      const { result } = await call("Runtime.evaluate", options);
      if (result?.exceptionDetails) throw new Error(JSON.stringify(result.exceptionDetails));
      return result?.result?.value;
    };
    const resize = async (width: number, height: number): Promise<unknown> =>
      await call("Emulation.setDeviceMetricsOverride", {
        width,
        height,
        deviceScaleFactor: 1,
        mobile: false,
      });
    return {
      problems,
      evaluate,
      screenshot: async (width) => {
        await resize(width, 1);
        await resize(width, Number(await evaluate("document.documentElement.scrollHeight")));
        const { result } = await call("Page.captureScreenshot", { format: "png" });
        return Buffer.from(result?.data ?? "", "base64");
      },
      [Symbol.asyncDispose]: async () => {
        socket.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function endpointOf(stderr: NodeJS.ReadableStream): Promise<string> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: stderr })) {
    const [, endpoint] = /^DevTools listening on (ws:.*)$/.exec(line) ?? [];
    if (endpoint !== undefined) return endpoint;
    lines.push(line);
  }
  throw new Error(`The browser did not start: ${lines.join("\n")}`);
}
