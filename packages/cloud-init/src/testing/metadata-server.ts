import { createServer, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { portOf } from "@kip/base";

/** The response to a request. `never` keeps the connection open without a response. */
export type MetadataReply =
  | "never"
  | {
      readonly status: number;
      readonly body?: string | Uint8Array | undefined;
      readonly headers?: OutgoingHttpHeaders | undefined;
    };

/** A metadata service on this machine. */
export interface MetadataServer extends AsyncDisposable {
  readonly url: string;
  /** `<method> <path>` of each request, in order. */
  readonly requests: readonly string[];
}

/** Starts a metadata service on a loopback address. One function handles all requests. */
export async function startMetadataServer(
  reply: (request: IncomingMessage & { readonly url: string }) => MetadataReply,
): Promise<MetadataServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const url = request.url ?? "";
    requests.push(`${request.method} ${url}`);
    const answer = reply(Object.assign(request, { url }));
    if (answer !== "never") response.writeHead(answer.status, answer.headers).end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
