import type { CodedError } from "@kip/base";
import {
  configMapContent,
  secretContent,
  type ReferencedContent,
  type ReferenceReader,
} from "../references/reference.ts";

/** Objects by `ConfigMap/name` or `Secret/name`: their data, or the failure to read them. */
export type FakeObjects = Readonly<Record<string, Readonly<Record<string, string>> | CodedError>>;

/** A reader over objects that are written down in a test. */
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
