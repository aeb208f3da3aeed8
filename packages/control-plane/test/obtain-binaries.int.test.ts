import assert from "node:assert/strict";
import { mkdir, readdir, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isCodedError, runCommand } from "@kip/base";
import {
  obtainBinaries,
  obtainCoredns,
  obtainSpecPrograms,
  pinned,
  programNames,
  type ObtainOptions,
} from "@kip/control-plane";
import { ControlPlaneError } from "../src/errors.ts";
import { temporaryPlace } from "./support/build-place.ts";

describe("obtainBinaries()", () => {
  it("builds once, and takes the programs from the cache afterwards", async () => {
    using place = await temporaryPlace();
    const first = await obtainBinaries(place.options);
    assert.equal(first.version, pinned.kubernetes);
    for (const name of programNames) await runCommand(first.paths[name]);
    assert.deepEqual(place.progress.slice(0, 1), ["Fetching the modules of Kubernetes v1.34.10"]);
    assert.match(place.progress.at(-1) ?? "", /^Kubernetes v1\.34\.10 is ready after /);
    assert.equal(await place.builds(), 1);

    assert.deepEqual(await obtainBinaries(place.options), first);
    assert.equal(await place.builds(), 1);
    const left = await readdir(join(place.options.cacheDir, "kubernetes"));
    assert.deepEqual(left.sort(), ["v1.34.10", "v1.34.10.lock"]);
  });

  it("builds once for callers at the same time", async () => {
    using place = await temporaryPlace();
    const found = await Promise.all([1, 2, 3].map(async () => await obtainBinaries(place.options)));
    assert.equal(new Set(found.map((binaries) => binaries.directory)).size, 1);
    assert.equal(await place.builds(), 1);
    assert.ok(place.progress.includes("Waiting for another process that obtains Kubernetes"));
  });

  it("builds again when a cached program is cut short, not when the cache was copied", async () => {
    using place = await temporaryPlace();
    const { paths } = await obtainBinaries(place.options);
    await utimes(paths.etcd, 1, 1);
    await obtainBinaries(place.options);
    assert.equal(await place.builds(), 1);
    await truncate(paths.etcd, 3);
    await obtainBinaries(place.options);
    assert.equal(await place.builds(), 2);
    await runCommand(paths.etcd);
  });

  it("leaves nothing half done when it is interrupted, and goes on the next time", async () => {
    using place = await temporaryPlace();
    const controller = new AbortController();
    const hanging = await place.fakeGo("hang", "echo started >&2; exec sleep 1000");
    await assert.rejects(
      obtainBinaries({
        ...place.options,
        go: hanging,
        signal: controller.signal,
        onProgress: (line) => {
          if (line.startsWith("Compiling")) controller.abort(new Error("Interrupted"));
        },
      }),
      { message: "Interrupted" },
    );
    assert.deepEqual((await readdir(join(place.options.cacheDir, "kubernetes"))).sort(), [
      "v1.34.10.lock",
      "v1.34.10.work",
    ]);
    await obtainBinaries(place.options);
    assert.equal(await place.builds(), 1);
  });

  it("says in a sentence what is missing or wrong", async () => {
    using place = await temporaryPlace();
    const failing = await place.fakeGo("fail", "echo 'no such host' >&2; exit 1");
    const failure = async (options: Partial<ObtainOptions>): Promise<string> => {
      try {
        await obtainBinaries({ ...place.options, ...options });
      } catch (error) {
        assert.ok(isCodedError(error) && error.remedy !== undefined);
        return `${error.code} ${error.message}`;
      }
      throw new assert.AssertionError({ message: "it did not fail" });
    };
    assert.match(
      await failure({ go: "no-such-go" }),
      /^KUBERNETES_UNOBTAINABLE .* no Go toolchain/,
    );
    assert.match(await failure({ go: failing }), /^KUBERNETES_BUILD_FAILED .*no such host$/);
    const empty = join(place.options.cacheDir, "empty");
    await mkdir(empty);
    assert.match(
      await failure({ userDir: empty }),
      /^KUBERNETES_PROGRAMS_MISSING .*: it has no program etcd, kube-apiserver, /,
    );
  });

  it("takes the programs of a directory that the user names, with their own version", async () => {
    using place = await temporaryPlace();
    const userDir = join(place.options.cacheDir, "mine");
    await mkdir(userDir);
    for (const name of programNames)
      await writeFile(join(userDir, name), "#!/bin/sh\necho Kubernetes v1.99.1\n", { mode: 0o755 });
    const binaries = await obtainBinaries({ ...place.options, userDir });
    assert.equal(binaries.version, "v1.99.1");
    assert.equal(binaries.paths.etcd, join(userDir, "etcd"));
    assert.equal(await place.builds(), 0);
  });
});

describe("obtainCoredns()", () => {
  it("builds once for callers at the same time, beside Kubernetes", async () => {
    using place = await temporaryPlace();
    const all = [1, 2].map(async () => await obtainCoredns(place.options));
    const [program = "", other] = await Promise.all(all);
    assert.equal(program, other);
    assert.match(program, /\/coredns\/v[\d.]+\/coredns$/);
    await runCommand(program);
    assert.equal(await place.builds(), 1);
    assert.ok(place.progress.includes("Waiting for another process that obtains CoreDNS"));
    await obtainBinaries(place.options);
    assert.equal(await obtainCoredns(place.options), program);
    assert.equal(await place.builds(), 2);
  });

  it("takes the program of a directory that the user names, if there is one", async () => {
    using place = await temporaryPlace();
    const userDir = join(place.options.cacheDir, "mine");
    await mkdir(userDir);
    assert.notEqual(await obtainCoredns({ ...place.options, userDir }), join(userDir, "coredns"));
    await writeFile(join(userDir, "coredns"), "#!/bin/sh\n", { mode: 0o755 });
    assert.equal(await obtainCoredns({ ...place.options, userDir }), join(userDir, "coredns"));
  });

  it("says in a sentence what is missing or wrong", async () => {
    using place = await temporaryPlace();
    await assert.rejects(obtainCoredns({ ...place.options, go: "no-such-go" }), (error) =>
      ControlPlaneError.is(error, "COREDNS_UNOBTAINABLE"),
    );
    const go = await place.fakeGo("fail", "echo 'no such host' >&2; exit 1");
    await assert.rejects(obtainCoredns({ ...place.options, go }), (error) => {
      assert.ok(ControlPlaneError.is(error, "COREDNS_BUILD_FAILED"));
      assert.match(error.message, /^Cannot build CoreDNS v[\d.]+: .*no such host$/);
      return true;
    });
  });
});

describe("obtainSpecPrograms()", () => {
  it("builds programs, then the specs as a test, and takes all from the cache afterwards", async () => {
    using place = await temporaryPlace();
    const { cacheDir, go } = place.options;
    const folder = await obtainSpecPrograms({ cacheDir, go });
    for (const name of ["e2e.test", "agnhost", "nonewprivs", "sample-apiserver"])
      await runCommand(join(folder, name));
    assert.equal(await place.builds(), 2);
    assert.equal(await obtainSpecPrograms({ cacheDir, go }), folder);
    assert.equal(await place.builds(), 2);
  });
});
