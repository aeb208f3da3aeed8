// A server for API extensions: admission and conversion webhooks, an aggregated API, and a page. It runs in a pod on the cell's
// Node, which gets this text. So it must not import modules of this repository.
import http from "node:http";
import https from "node:https";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import type { TLSSocket } from "node:tls";

interface Review {
  readonly apiVersion: string;
  readonly kind: string;
  readonly request: {
    readonly uid: string;
    readonly object: { readonly metadata: { readonly name: string } };
    readonly desiredAPIVersion: string;
    readonly objects: readonly Gadget[];
  };
}

/** `v1` has the field `size`, `v2` has `sizeCm`. */
interface Gadget {
  readonly spec: { readonly size?: number; readonly sizeCm?: number };
}

const { SERVER_CERTIFICATE: cert, SERVER_KEY: key, FRONT_PROXY_CA: ca } = process.env;
const group = "things.kip.test/v1";

const reviews: Readonly<Record<string, (request: Review["request"]) => object>> = {
  "/validate": ({ object }) =>
    object.metadata.name.startsWith("bad")
      ? { allowed: false, status: { message: "names that begin with bad are not allowed" } }
      : { allowed: true },
  "/mutate": () => ({
    allowed: true,
    patchType: "JSONPatch",
    patch: Buffer.from(
      JSON.stringify([{ op: "add", path: "/data", value: { by: "a pod" } }]),
    ).toString("base64"),
  }),
  "/convert": ({ desiredAPIVersion, objects }) => ({
    result: { status: "Success" },
    convertedObjects: objects.map((object) => {
      const size = object.spec.size ?? object.spec.sizeCm ?? 0;
      const spec = desiredAPIVersion.endsWith("/v2") ? { sizeCm: size } : { size };
      return { ...object, apiVersion: desiredAPIVersion, spec };
    }),
  }),
};

const things = {
  kind: "APIResourceList",
  apiVersion: "v1",
  groupVersion: group,
  resources: [
    { name: "things", singularName: "thing", namespaced: true, kind: "Thing", verbs: ["list"] },
  ],
};

/** Only accepts the API server, which names the user of the request. */
function aggregated(request: IncomingMessage): object | undefined {
  const { authorized } = request.socket as TLSSocket;
  if (!authorized) return undefined;
  if (request.url === `/apis/${group}`) return things;
  const user = request.headers["x-remote-user"];
  const item = { apiVersion: group, kind: "Thing", metadata: { name: "one" }, asked: user };
  return { apiVersion: group, kind: "ThingList", metadata: {}, items: [item] };
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "https://server");
  const review = reviews[url.pathname];
  response.setHeader("content-type", "application/json");
  if (review) {
    const asked = JSON.parse(await text(request)) as Review;
    const { apiVersion, kind, request: about } = asked;
    const said = { uid: about.uid, ...review(about) };
    response.end(JSON.stringify({ apiVersion, kind, response: said }));
  } else if (url.pathname.startsWith("/apis/")) {
    const said = aggregated(request);
    response.writeHead(said ? 200 : 401).end(JSON.stringify(said ?? {}));
  } else page(request, response);
}

function page(request: IncomingMessage, response: ServerResponse): void {
  const scheme = "encrypted" in request.socket ? "https" : "http";
  response.end(`${request.method} ${scheme} ${request.url}\n`);
}

http.createServer(page).listen(8080);
https
  .createServer({ cert, key, ca, requestCert: true, rejectUnauthorized: false }, (...pair) => {
    void answer(...pair);
  })
  .listen(8443);
