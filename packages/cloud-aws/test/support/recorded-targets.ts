import { once } from "node:events";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { portOf } from "@kip/base";

/** A server on loopback for an AWS JSON API, in front of moto. */
export interface RecordedTargets extends AsyncDisposable {
  readonly url: string;
  readonly calls: { readonly action: string; readonly authorization: string }[];
  /** Response to all calls from now on. */
  refusal: { readonly status: number; readonly code: string } | undefined;
}

/** Forwards calls of a JSON API and records their actions. */
export async function recordTargets(to: string): Promise<RecordedTargets> {
  const server = createServer((request, response) => {
    const pass = async (): Promise<void> => {
      const {
        authorization = "",
        "x-amz-target": target = "",
        "content-type": type = "application/x-amz-json-1.1",
      } = request.headers;
      const body = await buffer(request);
      recorded.calls.push({ action: String(target).replace(/^.*\./, ""), authorization });
      if (recorded.refusal) {
        response.writeHead(recorded.refusal.status, { "content-type": type });
        response.end(JSON.stringify({ __type: recorded.refusal.code, message: "refused" }));
        return;
      }
      const headers = {
        authorization,
        "x-amz-target": String(target),
        "content-type": type,
      };
      const answer = await fetch(to, { method: "POST", headers, body });
      response.writeHead(answer.status, { "content-type": type });
      response.end(await answer.text());
    };
    // The test is over, or the client has disconnected.
    pass().catch(() => request.socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const recorded: RecordedTargets = {
    url: `http://127.0.0.1:${portOf(server)}`,
    calls: [],
    refusal: undefined,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
  return recorded;
}
