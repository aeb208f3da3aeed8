import { decode, type Decoder } from "@kip/base";
import { canonicalAddress, parseCidr } from "./address.ts";
import { parseEndpoint } from "./endpoint.ts";
import { limits } from "./limits.ts";

/** The protocols that Services and policies know. */
export type Protocol = "TCP" | "UDP" | "SCTP";

/** @see Protocol */
export const protocol: Decoder<Protocol> = decode.oneOf("TCP", "UDP", "SCTP");

/** A port, 1 to 65535. */
export const port: Decoder<number> = decode.between(decode.integer, 1, 65_535);

/** An address in its canonical form. */
export const address: Decoder<string> = checked(
  "an IP address in its canonical form",
  (text) => canonicalAddress(text) === text,
);

/** A CIDR in its canonical form. */
export const cidr: Decoder<string> = checked(
  "a CIDR in its canonical form",
  (text) => parseCidr(text)?.text === text,
);

/** An address and a port. */
export const endpoint: Decoder<string> = checked(
  "an address and a port",
  (text) => parseEndpoint(text) !== undefined,
);

/** The name of a Service, a port or a group: what the API server accepts in names, and slashes. */
export const name: Decoder<string> = checked(
  "a name of letters, digits and -./",
  (text) => text.length <= limits.keyCharacters && /^[a-zA-Z0-9./-]*$/.test(text),
);

function checked(expected: string, isValid: (text: string) => boolean): Decoder<string> {
  return (value, path) => {
    const text = decode.string(value, path);
    if (!isValid(text)) throw decode.failure(path, expected, value);
    return text;
  };
}
