import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

/** A separate containerd. */
export interface Containerd extends AsyncDisposable {
  readonly pid: number;
  /** Command line that pulls and unpacks an image. */
  pullCommand(name: string): readonly string[];
}

/** @param store folder for its images; `socketFolder` is one with a short path */
export async function startContainerd(store: string, socketFolder: string): Promise<Containerd> {
  mkdirSync(socketFolder, { recursive: true });
  const address = path.join(socketFolder, "socket");
  const config = path.join(socketFolder, "config.toml");
  const lines = [
    "version = 2",
    `root = "${store}"`,
    `state = "${path.join(socketFolder, "state")}"`,
    'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
    "[grpc]",
    `address = "${address}"`,
  ];
  writeFileSync(config, lines.join("\n"));
  const child = spawn("containerd", ["--config", config], { stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  await new Promise<void>((resolve, reject) => {
    child.stderr.on("data", (text: Buffer) => {
      if (text.includes("successfully booted")) resolve();
    });
    void exited.then(() => reject(new Error("containerd stopped")));
  });
  return {
    pid: child.pid ?? 0,
    pullCommand: (name) => ["ctr", "--address", address, "images", "pull", "--plain-http", name],
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGTERM");
      await exited;
      rmSync(socketFolder, { recursive: true, force: true });
    },
  };
}
