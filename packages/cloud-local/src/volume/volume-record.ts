import { createHash } from "node:crypto";
import path from "node:path";
import { decode } from "@kip/base";
import type { Volume } from "@kip/cloud";
import { RecordFolders } from "../host/record-folders.ts";

const recordDocument = decode.object({
  id: decode.string,
  token: decode.string,
  name: decode.string,
  owner: decode.string,
  sizeBytes: decode.integer,
  serial: decode.string,
  tags: decode.map(decode.string),
  /**
   * ID of the machine that has the volume or is just getting it. Written before the machine gets it, and removed after it was
   * detached, so that it never misses a machine. A machine that has ended has no volumes.
   */
  attachedTo: decode.optional(decode.string),
});

/** A volume's record: `volume.json` in its folder. */
export type VolumeRecord = decode.Decoded<typeof recordDocument>;

/** Volumes below the state folder, with one folder each that contains `volume.json` and `disk.raw`. */
export function volumeFolders(stateDir: string): RecordFolders<VolumeRecord> {
  return new RecordFolders({
    folder: path.join(stateDir, "volumes"),
    locks: path.join(stateDir, "locks"),
    name: "volume",
    isForGood: true,
    parse: (text, file) => recordDocument(JSON.parse(text), file),
  });
}

/** ID of the volume for an owner's token. */
export function volumeId(owner: string, token: string): string {
  return `vol-${createHash("sha256").update(`${owner}\0${token}`).digest("hex").slice(0, 17)}`;
}

/** Serial number of a volume's disk: 20 characters, the limit that all kinds of disks support. */
export function serialOf(id: string): string {
  return id.replace("-", "");
}

/** The volume in the form of the port. */
export function toVolume(record: VolumeRecord, attachedTo: string | undefined): Volume {
  const { id, token, name, owner, sizeBytes, serial, tags } = record;
  return {
    id,
    token,
    name,
    owner,
    sizeBytes,
    serial,
    tags,
    attachedTo,
  };
}
