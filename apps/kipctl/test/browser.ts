// Debian's Chromium without a window, through its debugging protocol.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

const programs = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

/** Path of the browser. Undefined if none is installed. */
export const browserProgram = programs.find((each) => existsSync(each));

/** A page in its own browser process. */
export interface BrowserPage extends AsyncDisposable {
  /** Evaluates an expression in the page, and waits for it if it is a promise. */
  evaluate(expression: string): Promise<unknown>;
  /** A PNG picture of the whole page, with this window width in pixels. */
  screenshot(width: number): Promise<Buffer>;
  /** Messages of the page's console, and its errors. */
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
  // Tests run as root, where Chromium refuses to start with its sandbox. The page is our own.
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"];
  const child = spawn(program, [...flags, `--user-data-dir=${profile}`, "about:blank"], {
    stdio: ["ignore", "ignore", "pipe"],
    // Debian's program is a script that starts another one. Both have to be ended.
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
    const [target] = (await list.json()) as { webSocketDebuggerUrl: string }[]; // the protocol's format
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
