import { createServer, type Server } from "node:http";
import { listenAt, type Relay } from "./listen-at.ts";
import type { RelayConnection } from "./relay-clients.ts";
import type { RelayOptions } from "./relay.ts";

/** The data for a Service's health check. */
export interface ServiceHealth {
  /** Namespace and name. */
  readonly key: string;
  /** Number of ready endpoints on the virtual node. */
  readonly endpoints: number;
}

/** Time limit for a client to send its request, milliseconds. */
const requestMs = 10_000;

/**
 * Answers a load balancer's health checks on a port, as kube-proxy does. Ignores the content of requests. The status is 200 if
 * there are endpoints, and 503 otherwise.
 *
 * @param health undefined if the Service is gone
 * @throws the error of listening
 */
export async function openHealthCheck(
  options: Pick<RelayOptions, "address" | "port" | "clients"> & {
    readonly health: () => ServiceHealth | undefined;
  },
): Promise<Relay> {
  const { address, port, health } = options;
  const limits = { headersTimeout: requestMs, requestTimeout: requestMs, maxHeaderSize: 8192 };
  const server = createServer({ ...limits, connectionsCheckingInterval: 1000 }, (_, response) => {
    const { key, endpoints } = health() ?? { key: "/", endpoints: 0 };
    const [namespace, name] = key.split("/");
    response.shouldKeepAlive = false;
    response.writeHead(endpoints > 0 ? 200 : 503, {
      "content-type": "application/json",
      "x-content-type-options": "nosniff",
      "x-load-balancing-endpoint-weight": String(endpoints),
    });
    const service = { namespace, name };
    response.end(JSON.stringify({ service, localEndpoints: endpoints, serviceProxyHealthy: true }));
  });
  const entered = limitClients(server, options);
  return await listenAt(server, {
    address,
    port,
    endConnections: () => {
      server.closeAllConnections();
      for (const connection of entered) connection.leave();
    },
  });
}

/** Limits the server's clients. @returns the present ones */
function limitClients(
  server: Server,
  { address, port, clients }: Pick<RelayOptions, "address" | "port" | "clients">,
): ReadonlySet<RelayConnection> {
  const entered = new Set<RelayConnection>();
  server.on("connection", (socket) => {
    const asked = socket.localAddress ?? address;
    const connection = clients.enter(`${asked} ${port}`, () => socket.destroy());
    if (!connection) {
      socket.resetAndDestroy();
      return;
    }
    entered.add(connection);
    socket.once("close", () => {
      entered.delete(connection);
      connection.leave();
    });
  });
  return entered;
}
