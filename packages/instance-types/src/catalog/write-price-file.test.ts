import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { InstanceTypeError } from "../errors.ts";
import { openCatalog } from "./open-catalog.ts";
import { writePriceFile } from "./write-price-file.ts";

const folder = mkdtempSync(path.join(tmpdir(), "kip-prices-"));
after(() => rmSync(folder, { recursive: true }));
const entry = { instanceType: "m5.large", price: 0.07, cpu: 2, memory: 8 };
const update = { cloud: "aws", region: "ap-east-2", entries: [entry] };

describe("writePriceFile()", () => {
  it("makes a file that the catalog reads, also for a region that kip has no list of", () => {
    const file = path.join(folder, "new.json");
    writePriceFile(file, update);
    const { types } = openCatalog("aws", "ap-east-2", { priceFile: file });
    assert.deepEqual(
      types.map(({ name, pricePerHour }) => [name, pricePerHour["on-demand"]]),
      [["m5.large", 0.07]],
    );
  });

  it("replaces one region, and leaves others as they are", () => {
    const file = path.join(folder, "several.json");
    const other = { "m5.large": { price: 0.01 }, "t3.nano": null };
    writeFileSync(file, JSON.stringify({ "us-east-1": other, "ap-east-2": [] }));
    writePriceFile(file, update);
    writePriceFile(file, { ...update, entries: [{ ...entry, price: 0.08 }] });
    assert.deepEqual(JSON.parse(readFileSync(file, "utf8")), {
      "us-east-1": other,
      "ap-east-2": [{ ...entry, price: 0.08 }],
    });
  });

  it("changes nothing if the content would be wrong, or the file has another form", () => {
    const file = path.join(folder, "kept.json");
    for (const text of ['{"us-east-1": {}}', "no JSON"]) {
      writeFileSync(file, text);
      const entries = text.startsWith("{") ? [{ ...entry, cpu: -1 }] : [entry];
      assert.throws(
        () => writePriceFile(file, { ...update, entries }),
        (error) => InstanceTypeError.is(error, "PRICE_FILE_INVALID"),
      );
      assert.equal(readFileSync(file, "utf8"), text);
    }
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.endsWith(".new")),
      [],
    );
  });

  it("takes the processor of a type that kip does not know", () => {
    const file = path.join(folder, "arm.json");
    const entries = [{ ...entry, instanceType: "m99g.large", architecture: "arm64" as const }];
    writePriceFile(file, { ...update, entries });
    const { types } = openCatalog("aws", "ap-east-2", { priceFile: file });
    assert.equal(types[0]?.architecture, "arm64");
  });
});
