import assert from "node:assert/strict";
import { mkdtempDisposableSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import { startLayoutRegistry } from "./layout-registry.ts";
import { writeLayout } from "./layout-writer.ts";
import { tar } from "./tar-writer.ts";

describe("startLayoutRegistry()", () => {
  it("serves the image of a layout under every name, where no handler answers", async () => {
    using folder = mkdtempDisposableSync(path.join(tmpdir(), "kip-layout-"));
    const layer = tar([{ name: "file", content: "text" }]);
    writeLayout(folder.path, { layers: [layer], compression: "none" });
    await using registry = await startLayoutRegistry(folder.path, ({ url }, response) => {
      if (url !== "/v2/") return false;
      response.end("ours");
      return true;
    });
    const get = async (below: string): Promise<Response> => await fetch(registry.endpoint + below);
    assert.equal(await (await get("/v2/")).text(), "ours");
    const manifest = (await (await get("/v2/app/manifests/1")).json()) as {
      layers: { digest: string }[];
    };
    const blob = await get(`/v2/app/blobs/${manifest.layers[0]?.digest}`);
    assert.deepEqual(Buffer.from(await blob.arrayBuffer()), layer);
    assert.equal((await get(`/v2/app/blobs/sha256:${"0".repeat(64)}`)).status, 404);
    assert.equal(registry.requests[0], "GET /v2/ -");
  });
});
