import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { diskLayout, partitionTable } from "./disk-layout.ts";
import { placeBiosLoader } from "./loaders.ts";

describe("placeBiosLoader()", () => {
  const second = (sectors: number, listed: number): Buffer => {
    const image = Buffer.alloc(sectors * 512, 1);
    image.writeUInt16LE(listed, 0x1fc);
    return image;
  };

  it("has each part name the sector of the next", () => {
    const image = second(80, 79);
    const code = placeBiosLoader(Buffer.alloc(512, 0xff), image, 2048);
    assert.equal(code.length, 0x1b8, "what is the table's stays");
    assert.equal(code.readBigUInt64LE(0x5c), 2048n);
    assert.equal(image.readBigUInt64LE(0x1f4), 2049n);
  });

  it("refuses an image that is not GRUB's for a BIOS", () => {
    assert.throws(() => placeBiosLoader(Buffer.alloc(512), second(80, 3), 2048), RangeError);
  });
});

describe("diskLayout()", () => {
  it("leaves room for the root and the table's copy, on whole GiB", () => {
    for (const rootBytes of [2 ** 20, 2 ** 30 - 68 * 2 ** 20, 2 ** 30, 5 * 2 ** 30]) {
      const { diskBytes, boot, root } = diskLayout(rootBytes);
      assert.equal(diskBytes % 2 ** 30, 0);
      assert.equal(root.start, boot.start + boot.sectors);
      assert.ok(root.sectors * 512 >= rootBytes);
      assert.ok((root.start + root.sectors) * 512 <= diskBytes - 33 * 512);
    }
  });
});

describe("partitionTable()", () => {
  it("gives an image the same IDs each time, and each partition one of its own", () => {
    const layout = diskLayout(2 ** 30);
    const table = partitionTable(layout, "0123456789abcdef");
    assert.equal(partitionTable(layout, "0123456789abcdef"), table);
    const ids = table.match(/[\dA-F]{8}-[\dA-F]{4}-4[\dA-F]{3}-8[\dA-F]{3}-[\dA-F]{12}/g) ?? [];
    assert.equal(new Set(ids).size, 4);
    assert.notEqual(partitionTable(layout, "fedcba9876543210"), table);
  });
});
