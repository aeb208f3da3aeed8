import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { temporaryFolder, type TemporaryFolder } from "@kip/testing";
import { createAzureSource } from "./azure.ts";

const { signal } = new AbortController();

const sharedConfig = `<?xml version="1.0" encoding="utf-8"?>
<SharedConfig version="1.0.0.0" goalStateIncarnation="1">
  <Deployment name="d" guid="{1d10394f-c741-4a1a-a6bb-278f213c5a5e}" incarnation="0">
    <Service name="s" guid="{00000000-0000-0000-0000-000000000000}" />
  </Deployment>
  <Incarnation number="1" instance="cell-2" guid="{a7b774f6-0000-0000-0000-000000000000}" />
  <Instances>
    <Instance id="cell-1" address="10.0.0.4" />
    <Instance id="cell-2" address="10.0.0.5">
      <InputEndpoints><Endpoint name="ssh" loadBalancedPublicAddress="192.0.2.5:22" /></InputEndpoints>
    </Instance>
  </Instances>
</SharedConfig>`;

const environment = (customData: string): string => `<ns0:Environment xmlns:ns0="x">
  <ns1:LinuxProvisioningConfigurationSet xmlns:ns1="y">
    <ns1:HostName>cell-2</ns1:HostName>
    <ns1:CustomData>${customData}</ns1:CustomData>
    <ns1:SSH><ns1:PublicKeys><ns1:PublicKey>
      <ns1:Path>/home/a/.ssh/authorized_keys</ns1:Path><ns1:Value>ssh-rsa AAAA a</ns1:Value>
    </ns1:PublicKey></ns1:PublicKeys></ns1:SSH>
  </ns1:LinuxProvisioningConfigurationSet>
</ns0:Environment>`;

async function write(folder: TemporaryFolder, files: Readonly<Record<string, string | Buffer>>) {
  for (const [name, content] of Object.entries(files))
    await writeFile(path.join(folder.path, name), content);
  return createAzureSource({ directory: folder.path, machineIdFile: `${folder.path}/uuid` });
}

const config = "#cloud-config\nhostname: a\n";

describe("createAzureSource()", () => {
  it("reads what Azure's agent has left, once it has provisioned the machine", async () => {
    using folder = temporaryFolder();
    const source = await write(folder, {
      CustomData: config,
      "SharedConfig.xml": sharedConfig,
      "ovf-env.xml": environment("b3RoZXI="),
    });
    assert.equal(await source.isAvailable(signal), false);
    await write(folder, { provisioned: "" });
    assert.equal(await source.isAvailable(signal), true);
    const { userData, ...rest } = await source.read(signal);
    assert.equal(Buffer.from(userData).toString(), config);
    assert.deepEqual(rest, {
      instanceId: "1d10394f-c741-4a1a-a6bb-278f213c5a5e/cell-2",
      localHostname: "cell-2",
      publicKeys: ["ssh-rsa AAAA a"],
      addresses: { privateIpv4: "10.0.0.5", publicIpv4: "192.0.2.5" },
    });
  });

  for (const [name, content] of Object.entries({
    text: Buffer.from(config),
    gzip: gzipSync(config),
  }))
    it(`decodes custom data of ${name} in base64, as Azure transports it`, async () => {
      const base64 = content.toString("base64").replace(/(.{16})/, "$1\n");
      const expected = content.toString("base64");
      using file = temporaryFolder();
      const fromFile = await write(file, { CustomData: base64, uuid: "id\n" });
      const data = await fromFile.read(signal);
      assert.equal(data.instanceId, "id");
      assert.equal(Buffer.from(data.userData).toString("base64"), expected);
      using ovf = temporaryFolder();
      const fromOvf = await write(ovf, { "ovf-env.xml": environment(base64), uuid: "id\n" });
      const { userData } = await fromOvf.read(signal);
      assert.equal(Buffer.from(userData).toString("base64"), expected);
    });

  it("refuses files that name no machine", async () => {
    using folder = temporaryFolder();
    const source = await write(folder, { CustomData: config, "SharedConfig.xml": "<x>" });
    await assert.rejects(source.read(signal), { code: "METADATA_INVALID" });
  });
});
