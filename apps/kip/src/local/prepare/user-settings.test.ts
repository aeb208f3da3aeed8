import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { readUserSettings } from "./user-settings.ts";

describe("readUserSettings()", () => {
  it("reads registries, images and the node's capacity, and names what is wrong in them", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "settings.yaml");
    const read = async (text: string) => {
      await writeFile(file, text);
      return await readUserSettings(file);
    };
    assert.deepEqual(await read(""), { registries: [] });
    assert.deepEqual(await read("registries:\n- host: lab:5000\n  insecure: true\n"), {
      registries: [{ host: "lab:5000", insecure: true }],
    });
    assert.deepEqual(await read("images: { cache: { path: /x } }"), {
      registries: [],
      images: { cache: { path: "/x" } },
    });
    assert.deepEqual(await read("kubelet: { capacity: { cpu: 8 } }"), {
      registries: [],
      kubelet: { capacity: { cpu: 8 } },
    });
    for (const [text, message] of [
      ["kubelet: { capacity: { cpu: many } }", /many/],
      ["kubelet: { capcity: {} }", /capcity/],
      ["registry: []", /registry/],
      ["registries: [{ host: kip.local }]", /"kip\.local" has an entry already/],
      ["images: { cache: {} }", /images\.cache/],
      ["{", /Cannot read --settings/],
    ] as const) {
      await assert.rejects(
        read(text),
        (error) => isCodedError(error) && message.test(error.message),
      );
    }
    await assert.rejects(readUserSettings(path.join(work.path, "none")), {
      code: "OPTION_INVALID",
    });
  });
});
