// Test programs in pods. They run on the Node of their cell, because the demo image does not contain Node.
import { readFileSync } from "node:fs";
import path from "node:path";
import { shellPod } from "./cluster.ts";

/** Starts the program of a {@link nodePod} in the cell's file system. */
export const startProgram =
  'exec chroot /cell /usr/lib/kip/node --input-type=module-typescript -e "$PROGRAM"';

/**
 * A pod that runs a program from the folder `programs`.
 *
 * @param file imports only Node's own modules
 */
export function nodePod(
  name: string,
  file: string,
  {
    script = startProgram,
    labels = {},
    env = {},
    container = {},
  }: {
    readonly script?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly env?: Readonly<Record<string, string>>;
    readonly container?: object;
  } = {},
): object {
  const PROGRAM = readFileSync(path.join(import.meta.dirname, "programs", file), "utf8");
  const pod = shellPod(
    name,
    script,
    { volumes: [{ name: "cell", hostPath: { path: "/" } }] },
    {
      volumeMounts: [{ name: "cell", mountPath: "/cell" }],
      env: Object.entries({ PROGRAM, ...env }).map(([name, value]) => ({ name, value })),
      ...container,
    },
  ) as { metadata: object };
  return { ...pod, metadata: { ...pod.metadata, labels } };
}
