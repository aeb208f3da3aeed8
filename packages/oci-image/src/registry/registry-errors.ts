import type { IncomingHttpHeaders } from "node:http";
import { errorText, isCodedError, isSystemError } from "@kip/base";
import { ImageError } from "../errors.ts";

/** A registry's response that refuses a request. */
export interface Refusal {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Converts a refusal to an error. `what` is the requested object, and `who` the registry. */
export function refusalError(refusal: Refusal, who: string, what: string): ImageError {
  const { status } = refusal;
  const detail = messageOf(refusal.body);
  const facts = { status, registry: who };
  switch (status) {
    case 401:
    case 403:
      return new ImageError(
        "REGISTRY_UNAUTHORIZED",
        `registry ${who} refuses ${what}${detail}; it wants other credentials, or there is no such image`,
        { facts, remedy: "Check the image's name, and give the pod an imagePullSecret for it" },
      );
    case 404:
      return new ImageError("IMAGE_NOT_FOUND", `registry ${who} has no ${what}${detail}`, {
        facts,
        remedy: "Check the image's name and tag",
      });
    case 429:
      return new ImageError("REGISTRY_RATE_LIMITED", `registry ${who} limits its use${detail}`, {
        facts,
        retryAfterMs: retryAfterMs(refusal.headers),
        retryable: true,
        remedy: "Wait, or give credentials of an account with a higher limit",
      });
    default: {
      const reason = `registry ${who} answered ${status} for ${what}${detail}`;
      return new ImageError("REGISTRY_UNREACHABLE", reason, {
        facts,
        retryAfterMs: retryAfterMs(refusal.headers),
        retryable: status >= 500,
      });
    }
  }
}

/**
 * The delay in `Retry-After`: seconds, or a date (RFC 9110, 10.2.3) relative to the registry's own clock. Responses 429 and 503
 * may have it.
 */
function retryAfterMs(headers: IncomingHttpHeaders): number | undefined {
  const text = headers["retry-after"]?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const ms = Date.parse(text) - Date.parse(headers.date ?? "");
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** Converts a network failure. Errors of this package stay unchanged. */
export function networkError(error: unknown, who: string): unknown {
  if (isCodedError(error)) return error;
  const isPlainHttp = isSystemError(error, "EPROTO") || isTlsError(error);
  return new ImageError(
    "REGISTRY_UNREACHABLE",
    `registry ${who} cannot be reached: ${networkText(error)}`,
    {
      cause: error,
      retryable: true,
      facts: { registry: who },
      remedy: isPlainHttp
        ? `If it speaks plain HTTP, name it with the endpoint http://${who}`
        : "Check the registry's name and the network between",
    },
  );
}

/** Error codes of Node's TLS for a response that is not TLS. */
const tlsCodes: readonly unknown[] = [
  "ERR_SSL_WRONG_VERSION_NUMBER",
  "ERR_SSL_PACKET_LENGTH_TOO_LONG",
];

function isTlsError(error: unknown): boolean {
  return error instanceof Error && "code" in error && tlsCodes.includes(error.code);
}

/** An aggregate error, from trying several addresses, has no message of its own. */
function networkText(error: unknown): string {
  if (!(error instanceof AggregateError)) return errorText(error);
  return error.errors.map((each: unknown) => errorText(each)).join(", ");
}

/** The registry's error message, in the format of the distribution specification. It is foreign text. */
function messageOf(body: Buffer): string {
  try {
    const { errors } = JSON.parse(body.toString("utf8")) as { errors?: { message?: unknown }[] };
    const message = errors?.[0]?.message; // checked on the next line
    if (typeof message !== "string" || message === "") return "";
    // eslint-disable-next-line no-control-regex
    return ` ("${message.replaceAll(/[\0-\x1f\x7f]/g, " ").slice(0, 200)}")`;
  } catch {
    return "";
  }
}
