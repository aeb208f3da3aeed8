// Started by crash.int.test.ts as a separate process. Does one thing to the cloud, and is killed during that.
import { createLocalCloud, type LocalCloudOptions } from "../../src/index.ts";
import type { LaunchImages, LaunchRequest } from "@kip/cloud";

interface Act {
  readonly options: LocalCloudOptions;
  readonly launch?: LaunchRequest;
  readonly terminate?: string;
  readonly prepareNetwork?: boolean;
  readonly prepareTemplate?: string;
  readonly images?: LaunchImages;
  readonly removeNetwork?: boolean;
  /** Token of a volume that is attached to the launched machine and detached again. */
  readonly attachVolume?: string;
}

const act = JSON.parse(process.argv[2] ?? "{}", withBuffers) as Act; // written by the test
await using cloud = await createLocalCloud(act.options);
if (act.terminate !== undefined) await cloud.terminate(act.terminate);
if (act.prepareNetwork === true) await cloud.prepareNetwork();
if (act.prepareTemplate !== undefined)
  await cloud.prepareTemplate("local.nano", act.prepareTemplate, 0, {
    ...(act.images && { images: act.images }),
  });
const machine = act.launch && (await cloud.launch(act.launch));
if (machine && act.attachVolume !== undefined) {
  const volume = await cloud.createVolume({
    token: act.attachVolume,
    name: "data",
    sizeBytes: 2 ** 20,
    tags: {},
  });
  await cloud.attachVolume(volume.id, machine.id);
  await cloud.detachVolume(volume.id, machine.id);
}
if (act.removeNetwork === true) await cloud.removeNetwork();

/** In JSON, user data is the object from `Buffer.toJSON()`. */
function withBuffers(_key: string, value: unknown): unknown {
  const { type, data } = (value ?? {}) as { readonly type?: unknown; readonly data?: unknown };
  return type === "Buffer" ? Buffer.from(data as number[]) : value;
}
