import { decode, type Decoder } from "@kip/base";
import type { ImageConfig } from "../image-config.ts";

/** The store's record of an unpacked image. */
export interface ImageRecord {
  readonly id: string;
  readonly config: ImageConfig;
  readonly treeId: string;
  readonly sizeBytes: number;
  readonly notes: readonly string[];
}

const texts = decode.list(decode.string);

const config: Decoder<ImageConfig> = decode.object({
  entrypoint: texts,
  cmd: texts,
  env: texts,
  workingDir: decode.string,
  user: decode.string,
  stopSignal: decode.optional(decode.string),
  volumes: texts,
  exposedPorts: texts,
  labels: decode.map(decode.string),
});

export const imageRecord: Decoder<ImageRecord> = decode.object({
  id: decode.string,
  config,
  treeId: decode.string,
  sizeBytes: decode.integer,
  notes: texts,
});

/** The image of a name: the digest that the name was resolved to, and the key of the image's record. */
export const nameRecord = decode.object({
  name: decode.string,
  digest: decode.string,
  image: decode.string,
});
