import assert from "node:assert/strict";
import { mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { resolveMounts } from "./mount-places.ts";

describe("resolveMounts()", () => {
  it("follows a link to nothing, as images made from a running system have", () => {
    using root = temporaryRoot({
      "etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf",
      "var/run": "/run",
    });
    assert.deepEqual(root.places("/etc/resolv.conf", "/var/run/secrets/x"), [
      "/run/systemd/resolve/stub-resolv.conf",
      "/run/secrets/x",
    ]);
  });

  it("never leads out of the image", () => {
    using root = temporaryRoot({ up: "../../../../etc", away: "/../../etc/../../x" });
    assert.deepEqual(root.places("/up/passwd", "/away"), ["/x", "/etc/passwd"]);
  });

  it("leaves what is below another mount, or below /dev, as it is", () => {
    using root = temporaryRoot({ "data/inner": "/elsewhere", "dev/log": "/run/log" });
    assert.deepEqual(root.places("/data", "/data/inner/x", "/dev/log"), [
      "/data",
      "/dev/log",
      "/data/inner/x",
    ]);
  });

  it("knows a mount by the place that its link leads to", () => {
    using root = temporaryRoot({ volume: "/data", "data/inner": "/elsewhere" });
    assert.deepEqual(root.places("/volume", "/data/inner"), ["/data", "/data/inner"]);
  });

  it("refuses links in a circle, and links with endless targets", () => {
    const long = `${"a/".repeat(2000)}b`;
    using root = temporaryRoot({ one: "two", two: "one", long, "a/placeholder": "x" });
    for (const place of ["/one/x", "/long"]) {
      assert.throws(() => root.places(place), { code: "CONTAINER_CREATE_FAILED" });
    }
  });
});

/** A root file system with these links. */
function temporaryRoot(links: Readonly<Record<string, string>>) {
  const temporary = temporaryFolder();
  const root = temporary.path;
  for (const [place, target] of Object.entries(links)) {
    mkdirSync(path.join(root, path.dirname(place)), { recursive: true });
    symlinkSync(target, path.join(root, place));
  }
  return {
    places: (...destinations: readonly string[]) =>
      resolveMounts(
        root,
        destinations.map((destination) => ({ source: "/srv", destination, readOnly: true })),
      ).map(({ destination }) => destination),
    [Symbol.dispose]: () => temporary.remove(),
  };
}
