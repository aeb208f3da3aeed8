import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nearest } from "./nearest.ts";

describe("nearest()", () => {
  it("finds the candidate with the fewest differences, whatever the case", () => {
    assert.equal(nearest("cap_sys_adnim", ["CAP_CHOWN", "CAP_SYS_ADMIN"]), "CAP_SYS_ADMIN");
  });

  it("finds none where all differ too much", () => {
    assert.equal(nearest("zzz", ["image", "name"]), undefined);
  });

  it("does not compare a name of a megabyte", () => {
    let asked = 0;
    const candidates = {
      *[Symbol.iterator]() {
        asked++;
        yield "name";
      },
    } as unknown as readonly string[];
    assert.equal(nearest("n".repeat(1_048_576), candidates), undefined);
    assert.equal(asked, 0);
  });
});
