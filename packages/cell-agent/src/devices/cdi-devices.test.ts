import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { readCdiDevices } from "./cdi-devices.ts";

const kind = "example.com/card";
const node = (name: string): object => ({ deviceNodes: [{ path: `/dev/${name}` }] });
const device = (name: string, containerEdits = node(name)): object => ({ name, containerEdits });

/** Reads these files, by folder and name. Content that is not text is written as JSON. */
async function read(folders: Readonly<Record<string, Readonly<Record<string, unknown>>>>) {
  using root = temporaryFolder();
  const warnings: string[] = [];
  const places = Object.entries(folders).map(([folder, files]) => {
    const place = path.join(root.path, folder);
    mkdirSync(place);
    for (const [name, content] of Object.entries(files)) {
      const text = typeof content === "string" ? content : JSON.stringify(content);
      writeFileSync(path.join(place, name), text);
    }
    return place;
  });
  const warn = (message: string): void => void warnings.push(message);
  const devices = await readCdiDevices({ warn }, [...places, path.join(root.path, "none")]);
  const names = [...devices].map(([of, all]) => [of, all.map(({ name }) => name)]);
  return { devices, names: Object.fromEntries(names) as Record<string, string[]>, warnings };
}

function file(devices: readonly object[], more: object = {}): object {
  return { cdiVersion: "0.8.0", kind, devices, ...more };
}

describe("readCdiDevices()", () => {
  it("finds devices of several files and kinds, sorted by number", async () => {
    const { names, warnings } = await read({
      etc: {
        "a.json": file([device("10"), device("2"), device("b")]),
        "b.yaml": `cdiVersion: 0.6.0
kind: other.com/class
devices:
- name: x
  containerEdits:
    env: [A=b]
`.replace("[A=b]", "\n    - A=b"),
        "c.txt": "not looked at",
      },
    });
    assert.deepEqual(names, { [kind]: ["2", "10", "b"], "other.com/class": ["x"] });
    assert.deepEqual(warnings, []);
  });

  it("gives with a device what all devices of its file have", async () => {
    const common = { env: ["DRIVER=1"] };
    const { devices } = await read({
      etc: { "a.json": file([device("0")], { containerEdits: common }) },
    });
    assert.deepEqual(devices.get(kind)?.[0]?.edits, [node("0"), common]);
  });

  it("counts a device once that has several names, and no name for all of them", async () => {
    const all = { deviceNodes: [{ path: "/dev/0" }, { path: "/dev/1" }] };
    const { names, devices } = await read({
      etc: {
        "a.json": file([
          device("all", all),
          ...["0", "1"].flatMap((one) => [device(`GPU-${one}`, node(one)), device(one)]),
        ]),
      },
    });
    assert.deepEqual(names[kind], ["0", "1"]);
    // When this device is gone, another one may get its index.
    assert.deepEqual(
      devices.get(kind)?.map(({ id }) => id),
      ["GPU-0", "GPU-1"],
    );
  });

  it("takes devices of the second folder in place of those of the first", async () => {
    const { devices } = await read({
      etc: { "a.json": file([device("0"), device("1")]) },
      run: { "a.json": file([device("0", node("new"))]) },
    });
    assert.deepEqual(
      devices.get(kind)?.map((one) => one.edits[0]?.deviceNodes?.[0]?.path),
      ["/dev/new", "/dev/1"],
    );
  });

  it("leaves out devices that two files of a folder have, and files that cannot be read", async () => {
    const { names, warnings } = await read({
      etc: {
        "a.json": file([device("0"), device("1")]),
        "b.json": file([device("0", node("other"))]),
        "c.json": file([device("2")], { unknown: 1 }),
        "d.json": file([device("3")], { cdiVersion: "9.0.0" }),
        "e.json": file([device("4", { netDevices: [] })]),
        "f.json": file([], {}),
        "g.json": "{",
      },
    });
    assert.deepEqual(names, { [kind]: ["1"] });
    assert.equal(warnings.length, 6);
  });
});
