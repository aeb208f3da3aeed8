import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseCdiYaml } from "./cdi-yaml.ts";

describe("parseCdiYaml()", () => {
  it("reads what programs write, with lists below their keys and further in", () => {
    const text = `---
# written by a program
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      fileMode: 438
      permissions: rw
- name: 'it''s'
  containerEdits: {}
containerEdits:
  env:
    - NVIDIA_VISIBLE_DEVICES=void # none
    - "A=b: c"
  hooks:
  - hookName: createContainer
    args:
    - nvidia-cdi-hook
    - --link
    - ../x::/y
  mounts:
  -
    hostPath: /usr/lib/a.so
    containerPath: /usr/lib/a.so
    options: ["ro", "nosuid"]
  additionalGids: []
`;
    assert.deepEqual(parseCdiYaml(text), {
      cdiVersion: "0.5.0",
      kind: "nvidia.com/gpu",
      devices: [
        {
          name: "0",
          containerEdits: {
            deviceNodes: [{ path: "/dev/nvidia0", fileMode: 438, permissions: "rw" }],
          },
        },
        { name: "it's", containerEdits: {} },
      ],
      containerEdits: {
        env: ["NVIDIA_VISIBLE_DEVICES=void", "A=b: c"],
        hooks: [{ hookName: "createContainer", args: ["nvidia-cdi-hook", "--link", "../x::/y"] }],
        mounts: [
          {
            hostPath: "/usr/lib/a.so",
            containerPath: "/usr/lib/a.so",
            options: ["ro", "nosuid"],
          },
        ],
        additionalGids: [],
      },
    });
  });

  it("reads scalars by their kind", () => {
    assert.deepEqual(parseCdiYaml("a: 0660\nb: -1\nc: true\nd: null\ne: ~\nf:\ng: 1.5.0\n"), {
      a: 0o660,
      b: -1,
      c: true,
      d: null,
      e: null,
      f: null,
      g: "1.5.0",
    });
    assert.deepEqual(parseCdiYaml("- a\n- - b\n  - c\n"), ["a", ["b", "c"]]);
  });

  it("refuses what it does not read, by line", () => {
    for (const text of [
      "a: 1\nb: |\n  text\n",
      "a: 1\nb: *anchor\n",
      "a: 1\nb: &x y\n",
      "a: 1\nb: {c: d}\n",
      "a: 1\na: 2\n",
      "a: 1\n  b: 2\n",
      "a: 1\n\tb: 2\n",
      "a: 1\nnothing\n",
    ])
      assert.throws(() => parseCdiYaml(text), /^SyntaxError: Cannot read YAML: line 2 has/, text);
  });
});
