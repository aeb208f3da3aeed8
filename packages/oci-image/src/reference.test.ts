import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { ImageError } from "./errors.ts";
import { formatReference, parseReference } from "./reference.ts";

const digest = `sha256:${"0123456789abcdef".repeat(4)}`;

describe("parseReference()", () => {
  it("shows nothing of a name that would steer a terminal, and not all of a long one", () => {
    for (const name of [
      "app\u001b[2J\n:1",
      "app:\u001b[2J",
      "app@sha256:\r\u0007",
      "\u202ehost.example.com/app",
      `${"x".repeat(100_000)}\u001b.example.com/app`,
      `app:${"y".repeat(100_000)}`,
    ]) {
      assert.throws(
        () => parseReference(name),
        ({ code, message }: ImageError) => {
          assert.equal(code, "IMAGE_NAME_INVALID");
          assert.doesNotMatch(message, /[\p{Cc}\p{Cf}]/u);
          assert.ok(message.length < 1000, `${message.length} characters`);
          return true;
        },
      );
    }
  });

  const full: Readonly<Record<string, string>> = {
    busybox: "docker.io/library/busybox:latest",
    "busybox:1.36": "docker.io/library/busybox:1.36",
    "user/app": "docker.io/user/app:latest",
    "docker.io/busybox": "docker.io/library/busybox:latest",
    "index.docker.io/a/b": "docker.io/a/b:latest",
    "quay.io/a/b/c:v1": "quay.io/a/b/c:v1",
    "localhost/app": "localhost/app:latest",
    "localhost:5000/app": "localhost:5000/app:latest",
    "Registry.Example/app": "registry.example/app:latest",
    "registry:5000/a:1": "registry:5000/a:1",
    "127.0.0.1:5000/a/b": "127.0.0.1:5000/a/b:latest",
    "[::1]:5000/a": "[::1]:5000/a:latest",
    "a__b/c--d/e.f_g": "docker.io/a__b/c--d/e.f_g:latest",
    [`app@${digest}`]: `docker.io/library/app@${digest}`,
    [`app:1@${digest}`]: `docker.io/library/app:1@${digest}`,
  };
  for (const [text, expected] of Object.entries(full)) {
    it(`reads ${text}`, () => {
      assert.equal(formatReference(parseReference(text)), expected);
      assert.deepEqual(parseReference(expected), parseReference(text));
    });
  }

  const wrong: Readonly<Record<string, RegExp>> = {
    "": /names no repository/,
    "App:1": /repositories are lower case/,
    "a//b": /"" is not a valid path part/,
    "a/../b": /"\.\." is not a valid path part/,
    "a:": /"" is not a valid tag/,
    "a:b:c": /"b:c" is not a valid tag/,
    "a:-x": /is not a valid tag/,
    "bad_host.x/a": /is not a registry host/,
    "host:99999999/a": /is not a registry host/,
    "app@sha256:12": /is not a digest/,
    "app@sha1:aa@x": /more than one "@"/,
    [`app@sha512:${"a".repeat(64)}`]: /is not a digest/,
    "a\nb": /is not a valid path part/,
    [`a/${"b".repeat(300)}`]: /longer than 255/,
  };
  for (const [text, expected] of Object.entries(wrong)) {
    it(`refuses ${JSON.stringify(text.slice(0, 30))}`, () => {
      assert.throws(() => parseReference(text), { code: "IMAGE_NAME_INVALID", message: expected });
    });
  }

  it("gives for any text a reference that reads back the same, or our failure", () => {
    const text = fc.oneof(fc.string(), fc.stringMatching(/^[a-z0-9.:/@_-]{1,40}$/));
    fc.assert(
      fc.property(text, (input) => {
        try {
          const reference = parseReference(input);
          assert.deepEqual(parseReference(formatReference(reference)), reference);
        } catch (error) {
          if (!ImageError.is(error, "IMAGE_NAME_INVALID")) throw error;
        }
      }),
    );
  });
});
