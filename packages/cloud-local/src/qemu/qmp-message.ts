import { decode } from "@kip/base";

const message = decode.object({
  QMP: decode.optional(decode.unknownValue),
  event: decode.optional(decode.string),
  data: decode.optional(decode.unknownValue),
  id: decode.optional(decode.integer),
  error: decode.optional(decode.object({ class: decode.string, desc: decode.string })),
  return: decode.optional(decode.unknownValue),
});

/** A line from QEMU: a greeting (`QMP`), an event, or the answer to the command with this `id`. */
export type QmpMessage = decode.Decoded<typeof message>;

/** Parses a line. Undefined if it is not a message, because a guest may have broken into QEMU. */
export function parseQmpMessage(line: string): QmpMessage | undefined {
  try {
    return message(JSON.parse(line), "QMP");
  } catch {
    return undefined;
  }
}

/** The data of an event, in an object. Undefined if they have another form. */
export function decodeEventData<T>(
  decoder: decode.Decoder<T>,
  data: unknown,
): { readonly value: T } | undefined {
  try {
    return { value: decoder(data, "QMP") };
  } catch {
    return undefined;
  }
}
