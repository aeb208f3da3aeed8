import { CloudInitError } from "../errors.ts";

/** A part of MIME user data. */
export interface MimePart {
  /** In lower case, without parameters. */
  readonly contentType: string;
  readonly body: Uint8Array;
}

const maxParts = 64;
const maxNesting = 3;

/** Whether user data begins with the headers of a multipart message. */
export function isMultipart(data: Uint8Array): boolean {
  const start = Buffer.from(data.subarray(0, 4096)).toString("latin1");
  const headers = /^(?:[A-Za-z-]+:.*\r?\n(?:[ \t].*\r?\n)*)+\r?\n/.exec(start)?.[0];
  return headers !== undefined && /^content-type:\s*multipart\//im.test(headers);
}

/**
 * The parts of a MIME message in order, including those of nested messages.
 *
 * @throws {CloudInitError} `USER_DATA_INVALID`
 * @see https://www.rfc-editor.org/rfc/rfc2046#section-5.1
 */
export function mimeParts(data: Uint8Array, depth = 1): readonly MimePart[] {
  if (depth > maxNesting)
    throw invalid(`more than ${maxNesting} of its MIME messages are inside of each other`);
  // Decode each byte as one character, so that content is preserved.
  const { headers, body } = readEntity(Buffer.from(data).toString("latin1"));
  const parts: MimePart[] = [];
  for (const text of split(body, boundaryOf(headers))) {
    const part = readEntity(text);
    const content = decodeBody(part.body, part.headers.get("content-transfer-encoding"));
    const contentType = typeOf(part.headers);
    if (contentType.startsWith("multipart/"))
      parts.push(...mimeParts(Buffer.from(text, "latin1"), depth + 1));
    else parts.push({ contentType, body: content });
    if (parts.length > maxParts) throw invalid(`it has more than ${maxParts} MIME parts`);
  }
  return parts;
}

interface Entity {
  /** By name, in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

function readEntity(text: string): Entity {
  const end = /^\r?\n/.exec(text) ?? /\r?\n\r?\n/.exec(text);
  const head = end ? text.slice(0, end.index) : text;
  const body = end ? text.slice(end.index + end[0].length) : "";
  const headers = new Map<string, string>();
  for (const line of head.replaceAll(/\r?\n[ \t]+/g, " ").split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon > 0) headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  return { headers, body };
}

function typeOf(headers: Entity["headers"]): string {
  return (headers.get("content-type") ?? "text/plain").split(";")[0]?.trim().toLowerCase() ?? "";
}

function boundaryOf(headers: Entity["headers"]): string {
  const found = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;]{1,70}))/i.exec(
    headers.get("content-type") ?? "",
  );
  const boundary = found?.[1] ?? found?.[2];
  if (boundary === undefined) throw invalid("its MIME header names no boundary");
  return boundary;
}

/** Splits the text between the boundary lines. The line break before a boundary belongs to the boundary. */
function split(body: string, boundary: string): readonly string[] {
  const parts: string[] = [];
  let lines: string[] | undefined;
  for (const line of body.split("\n")) {
    const text = line.trimEnd();
    if (text !== `--${boundary}` && text !== `--${boundary}--`) {
      lines?.push(line);
      continue;
    }
    if (lines) parts.push(lines.join("\n").replace(/\r$/, ""));
    lines = [];
    if (text.length > boundary.length + 2) return parts;
  }
  throw invalid("its last MIME part has no end");
}

function decodeBody(body: string, encoding = "7bit"): Uint8Array {
  switch (encoding.toLowerCase()) {
    case "7bit":
    case "8bit":
    case "binary":
      return Buffer.from(body, "latin1");
    case "base64": {
      const plain = body.replaceAll(/\s/g, "");
      if (!/^[A-Za-z0-9+/]*={0,2}$/.test(plain)) throw invalid("a MIME part is not base64");
      return Buffer.from(plain, "base64");
    }
    case "quoted-printable":
      return Buffer.from(
        body
          .split("\n")
          .map((line) => line.trimEnd())
          .join("\n")
          .replaceAll("=\n", "")
          .replaceAll(/=([\dA-F]{2})/gi, (_, hex: string) =>
            String.fromCharCode(Number.parseInt(hex, 16)),
          ),
        "latin1",
      );
    default:
      throw invalid(`a MIME part has the encoding "${encoding.slice(0, 100)}"`);
  }
}

function invalid(reason: string): CloudInitError {
  return new CloudInitError("USER_DATA_INVALID", `Cannot read user data: ${reason}`);
}
