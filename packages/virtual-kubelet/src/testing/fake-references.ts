import type { CodedError } from "@kip/base";
import {
  configMapContent,
  secretContent,
  type ReferencedContent,
  type ReferenceReader,
} from "../references/reference.ts";

/** Objects by `ConfigMap/name` or `Secret/name`: their data, or the error of reading them. */
export type FakeObjects = Readonly<Record<string, Readonly<Record<string, string>> | CodedError>>;

/** A reader for objects that a test defines. */
export function fakeReferences(objects: FakeObjects): ReferenceReader {
  return {
    read: async ({ kind, name }): Promise<ReferencedContent | undefined> => {
      const data = objects[`${kind}/${name}`];
      if (data === undefined) return undefined;
      if (data instanceof Error) throw data;
      if (kind === "ConfigMap") return configMapContent({ data: { ...data } });
      const entries = Object.entries(data).map(
        ([key, value]) => [key, Buffer.from(value).toString("base64")] as const,
      );
      return secretContent({ data: Object.fromEntries(entries) });
    },
  };
}
