import { capacity } from "./cases/capacity.ts";
import { console } from "./cases/console.ts";
import { disks } from "./cases/disks.ts";
import { errors } from "./cases/errors.ts";
import { idempotency } from "./cases/idempotency.ts";
import { interruption } from "./cases/interruption.ts";
import { lifecycle } from "./cases/lifecycle.ts";
import { offers } from "./cases/offers.ts";
import { ownership } from "./cases/ownership.ts";
import { volumes } from "./cases/volumes.ts";
import { waiting } from "./cases/waiting.ts";
import type { ConformanceTopic } from "./bench/conformance-case.ts";

/** The whole contract. */
export const conformanceTopics: readonly ConformanceTopic[] = [
  offers,
  lifecycle,
  idempotency,
  ownership,
  waiting,
  console,
  errors,
  capacity,
  disks,
  volumes,
  interruption,
];
