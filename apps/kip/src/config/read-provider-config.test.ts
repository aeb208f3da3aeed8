import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { noteText } from "./placed-notes.ts";
import { configError, readConfigText } from "./read-provider-config.ts";

const problemsOf = (text: string): readonly string[] =>
  readConfigText(text).problems.map((note) => noteText(note));

describe("readConfigText()", () => {
  it("names the line of each problem, in the order of the file", () => {
    const text = `cells:
  defaultVolumeSze: 5Gi
  standbyCells:
    - instanceType: t3.nano
      count: 1
    - { count: -1 }
registries:
  - host: a.test
  - host: a.test
cloud:
  local: {}
  gce: {}
`;
    assert.deepEqual(problemsOf(text), [
      "line 2: cells.defaultVolumeSze: there is no such key. Did you mean cells.defaultVolumeSize?",
      "line 6: cells.standbyCells[1].count: a whole number from 0 to 5000 expected, found -1",
      "line 6: cells.standbyCells[1].instanceType: it is missing or blank",
      'line 9: registries[1].host: "a.test" has an entry already',
      "line 12: cloud.gce: there is cloud.local already. Give exactly one of cloud.local, cloud.aws, cloud.gce and cloud.azure",
      "line 12: cloud.gce: this version has no driver for this cloud. Use cloud.local or cloud.aws",
    ]);
  });

  it("names the lines of what is not valid YAML, and quotes nothing, which may be a password", () => {
    for (const [text, problem] of [
      ["registries:\n- { password: hidden, host: [}\n", /^line 2: it is not valid YAML$/],
      ["registries:\n- password: *hidden\n", /^(line 2: )?it is not valid YAML/],
      ["cells: {}\nhidden: 1\nhidden: 2\n", /^line 3: this key is there twice$/],
      ["cloud:\n  local: {}\n---\nhidden: 1\n", /^line \d: a second YAML document/],
    ] as const) {
      const found = readConfigText(text);
      assert.match(noteText(found.problems[0] ?? assert.fail(text)), problem);
      assert.doesNotMatch(inspect(found, { depth: 9 }), /hidden/);
    }
  });

  it("follows aliases, and refuses those that would make a file immense", () => {
    const label = "kubelet:\n  labels: &l { a: b }\n  capacity: {}\ncells: {}\ncloud: { local: }\n";
    assert.deepEqual(problemsOf(label), []);
    const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
    const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for (const [at, name] of names.slice(1).entries()) {
      const before = names[at];
      bomb.push(`${name}: &${name} [${Array.from({ length: 9 }, () => `*${before}`).join(",")}]`);
    }
    assert.match(problemsOf(bomb.join("\n"))[0] ?? "", /an alias cannot be followed/);
  });

  it("reads JSON, and an empty file as one without a cloud", () => {
    assert.deepEqual(problemsOf('{"cloud": {"local": {"hostPorts": [1]}}}'), []);
    assert.deepEqual(problemsOf("# Of kip\n---\ncloud: { local: }\n---\n# The end\n"), []);
    assert.deepEqual(problemsOf(""), ["cloud: it is missing or blank"]);
  });

  it("takes a file without a cloud where none is needed, but no other form", () => {
    const found = (text: string): readonly string[] =>
      readConfigText(text, { needsCloud: false }).problems.map((note) => noteText(note));
    for (const text of ["", "registries: []"]) assert.deepEqual(found(text), [], text);
    for (const [text, form] of [
      ["- a", "a list"],
      ["text", "text"],
      ["5", "a number"],
    ] as const)
      assert.match(found(text).join(), new RegExp(`^keys expected, found ${form}`), text);
  });
});

describe("configError()", () => {
  it("has the place of a single problem in its message, and lists several", () => {
    const one = configError("p.yaml", readConfigText("cloud: { lokal: {} }").problems);
    assert.equal(
      one.message,
      'Cannot use provider configuration "p.yaml", line 1: cloud.lokal: there is no such key',
    );
    assert.equal(one.remedy, "Did you mean cloud.local?");
    const two = configError("p.yaml", readConfigText("cloud: { local: {} }\na: 1\nb: 2").problems);
    assert.equal(two.message, 'Cannot use provider configuration "p.yaml": it has 2 problems');
    assert.deepEqual(
      two.remedy?.split("\n").map((line) => line.slice(0, 9)),
      ["line 2: a", "line 3: b"],
    );
  });
});
