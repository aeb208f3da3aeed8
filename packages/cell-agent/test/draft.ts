import type { ContainerRecord, SavedContainer } from "../src/state/container-record.ts";

type Draft<T> = { -readonly [K in keyof T]: T[K] };

/** A record that a test may still change. */
export type DraftRecord = Draft<Omit<ContainerRecord, "saved">> & { saved: Draft<SavedContainer> };
