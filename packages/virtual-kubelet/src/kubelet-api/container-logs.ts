import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { begunStream, errorText, type Clock, type Logger } from "@kip/base";
import type { ContainerStatus, Pod } from "@kip/k8s-types";
import { findError } from "../errors.ts";
import { HttpRefusal } from "./transport/answer.ts";
import { parseLogQuery } from "./log-query.ts";
import type { KubeletHandlers } from "./options.ts";

/** A request for a container's log. */
export interface LogRequest {
  readonly pod: Pod;
  readonly container: string;
  readonly query: URLSearchParams;
  readonly response: ServerResponse;
  readonly handlers: KubeletHandlers;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Sends a container's log from the provider. A failure before the first byte becomes an error response. A later one closes the
 * connection, because its text would look like a line of the log. But the API server treats a log that was cut off as complete.
 * So the response usually starts with the first byte. It starts earlier only for a client that follows the log of a container
 * without output, so that the client knows it is connected.
 */
export async function sendContainerLogs(request: LogRequest): Promise<void> {
  const { pod, container, response, handlers, logger } = request;
  const options = parseLogQuery(request.query, request.clock.now());
  if (handlers.logs === undefined) throw new HttpRefusal(501, "501 not implemented");
  if (options.stream !== undefined && handlers.hasLogStreams !== true)
    throw new HttpRefusal(400, 'stream: this node cannot tell the streams apart; only "All" works');
  const left = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) left.abort(new Error("The client closed the connection"));
  });
  const log = await handlers.logs(pod, container, options, left.signal).catch((error: unknown) => {
    throw findError(error, "VK_NOT_FOUND")
      ? new HttpRefusal(400, noLogReason(pod, container, options.previous))
      : error;
  });
  const begun = options.follow
    ? log
    : await begunStream(log).catch((error: unknown) => {
        const named = `container "${container}" in pod "${pod.metadata.name}"`;
        throw new HttpRefusal(500, `Cannot read the log of ${named}: ${errorText(error)}`);
      });
  response.writeHead(200, { "Content-Type": "text/plain; charset=utf-8" });
  response.flushHeaders();
  try {
    await pipeline(begun, response);
  } catch (error) {
    if (!left.signal.aborted) logger.warn("Could not send a log", { err: error });
    response.destroy();
  }
}

/** Why a container has no log, with the kubelet's message. */
export function noLogReason(pod: Pod, container: string, isPrevious: boolean): string {
  const podName = pod.metadata.name;
  const named = `container "${container}" in pod "${podName}"`;
  if (isPrevious) return `previous terminated ${named} not found`;
  const { waiting, terminated } = containerStatus(pod, container)?.state ?? {};
  // It ended before it had a log, for example with a pod that never ran.
  if (terminated) return `${named} is terminated`;
  switch (waiting?.reason) {
    case undefined:
      return `${named} is not available`;
    case "ErrImagePull":
      return `${named} is waiting to start: image can't be pulled`;
    case "ImagePullBackOff":
      return `${named} is waiting to start: trying and failing to pull image`;
    default:
      return `${named} is waiting to start: ${waiting?.reason}`;
  }
}

function containerStatus(pod: Pod, container: string): ContainerStatus | undefined {
  const { containerStatuses, initContainerStatuses, ephemeralContainerStatuses } = pod.status ?? {};
  return [containerStatuses, initContainerStatuses, ephemeralContainerStatuses]
    .flatMap((statuses) => statuses ?? [])
    .find((status) => status.name === container);
}
