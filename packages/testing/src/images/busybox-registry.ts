import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { runCommand } from "@kip/base";
import {
  startLayoutRegistry,
  type LayoutRegistry,
  type RegistryPlace,
  type RequestHandler,
} from "./layout-registry.ts";
import { writeLayout } from "./layout-writer.ts";
import { tar } from "./tar-writer.ts";

/**
 * Starts a registry with one image, `busybox`, under every tag.
 *
 * @param busybox a static program for the image
 * @param foreign the same program for another architecture. If given, the image contains this one, with the links that this
 * computer's program lists
 */
export async function startBusyboxRegistry(
  busybox: string,
  place?: RegistryPlace,
  foreign?: { readonly program: string; readonly architecture: string },
): Promise<LayoutRegistry> {
  await using stack = new AsyncDisposableStack();
  const layout = stack.use(await mkdtempDisposable(path.join(tmpdir(), "kip-image-"))).path;
  writeLayout(layout, {
    layers: [await busyboxLayer(busybox, foreign?.program ?? busybox)],
    architecture: foreign?.architecture,
    compression: "none",
    config: { Env: ["PATH=/bin"], Cmd: ["sh"] },
  });
  const registry = stack.use(await startLayoutRegistry(layout, onlyBusybox, place));
  const owned = stack.move();
  return { ...registry, [Symbol.asyncDispose]: async () => await owned.disposeAsync() };
}

const onlyBusybox: RequestHandler = ({ url = "" }, response) => {
  const [, , repository] = url.split("/");
  if (repository === "busybox") return false;
  response.writeHead(repository === "" ? 200 : 404).end();
  return true;
};

async function busyboxLayer(busybox: string, program: string): Promise<Buffer> {
  const { stdout } = await runCommand(busybox, ["--list"]);
  const names = stdout.split("\n").filter((name) => name !== "" && name !== "busybox");
  return tar([
    // The image's root folder. Users other than root must be able to enter it.
    { name: "./", type: "5" },
    { name: "bin/", type: "5" },
    { name: "etc/", type: "5" },
    { name: "tmp/", type: "5", mode: 0o1777 },
    { name: "bin/busybox", mode: 0o755, content: await readFile(program) },
    ...names.map((name) => ({ name: `bin/${name}`, type: "2", linkName: "busybox" })),
    { name: "etc/passwd", content: "root:x:0:0:root:/root:/bin/sh\n" },
  ]);
}
