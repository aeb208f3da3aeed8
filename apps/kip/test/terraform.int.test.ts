// deploy/terraform/aws, by Terraform or OpenTofu with the real provider, with moto.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { startMoto } from "@kip/cloud-aws/emulator";
import { temporaryFolder } from "@kip/testing";
import { readConfigText } from "../src/config/read-provider-config.ts";

const kip = path.join(import.meta.dirname, "../bin/kip");
const module = path.join(import.meta.dirname, "../../../deploy/terraform/aws");
const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const isWanted = process.env["KIP_TEST_TERRAFORM"] === "1";
const skip = isWanted
  ? false
  : "KIP_TEST_TERRAFORM=1 runs it: it needs terraform or tofu, and the AWS provider";

/** Leaves out resources that moto lacks or supports only in part. */
const withoutLacking = `
resource "aws_eks_addon" "pod_identity" {
  count = 0
}
resource "aws_eks_addon" "efs" {
  count = 0
}
resource "aws_eks_pod_identity_association" "kip" {
  count = 0
}
resource "aws_vpc_security_group_ingress_rule" "from_vpc" {
  count = 0
}
`;

describe("deploy/terraform/aws", { skip, timeout: 900_000 }, () => {
  const folder = temporaryFolder();
  const program = ["terraform", "tofu"].find((name) => spawnSync(name, ["version"]).status === 0);

  after(() => folder.remove());

  /** Runs a command in a folder. Variables of the caller such as TF_CLI_ARGS_init apply. */
  async function terraform(cwd: string, ...args: readonly string[]): Promise<string> {
    assert.ok(program !== undefined, "neither terraform nor tofu is installed");
    const { stdout } = await runCommand(program, args, { cwd, env: process.env });
    return stdout;
  }

  /** Copies the module to a new folder. */
  function copyTo(name: string): string {
    const place = path.join(folder.path, name);
    mkdirSync(place);
    cpSync(module, path.join(place, "module"), { recursive: true });
    return place;
  }

  /**
   * Resource types that a plan would change now. moto returns less of a cluster than was requested, so the cluster counts as
   * changed.
   */
  async function changedTypes(place: string): Promise<readonly string[]> {
    await terraform(place, "plan", "-input=false", "-out=again");
    const shown = JSON.parse(await terraform(place, "show", "-json", "again")) as ShownPlan;
    return shown.resource_changes
      .filter(({ change }) => change.actions.join() !== "no-op")
      .map(({ type }) => type)
      .filter((type) => !type.startsWith("aws_eks_"));
  }

  it("is formatted, and valid for the provider", async () => {
    const place = path.join(copyTo("valid"), "module");
    await terraform(place, "fmt", "-check", "-diff");
    await terraform(place, "init", "-backend=false");
    await terraform(place, "validate");
  });

  it("is made, stays as it is, gives kip what it needs, and is removed", async () => {
    const environment = { MOTO_IAM_LOAD_MANAGED_POLICIES: "true" };
    await using moto = await startMoto({ cacheDir: path.join(cacheDir, "moto"), environment });
    const place = copyTo("applied");
    writeFileSync(path.join(place, "module/lacking_override.tf"), withoutLacking);
    writeFileSync(path.join(place, "main.tf"), rootModule(moto.url));
    await terraform(place, "init");
    await terraform(place, "apply", "-auto-approve", "-input=false");
    assert.deepEqual(await changedTypes(place), []);
    const output = JSON.parse(await terraform(place, "output", "-json", "kip")) as Outputs;

    const file = path.join(place, "provider.yaml");
    writeFileSync(file, output.provider_yaml);
    const { config, problems } = readConfigText(output.provider_yaml);
    assert.deepEqual(problems, []);
    assert.ok(config?.cloud.name === "aws");
    assert.equal(config.cloud.aws.region, "eu-west-1");
    assert.deepEqual(config.cloud.aws.subnetIDs, output.cell_subnet_ids);
    assert.match(config.images?.cache?.nfs ?? "", /^10\.0\.\d+\.\d+:\/images$/);
    assert.match(output.efs_volume_handle, /^fs-\w+::fsap-\w+$/);
    // The role may do exactly what "kip iam print" prints.
    const wanted = JSON.parse((await runCommand(kip, ["iam", "print", file])).stdout) as unknown;
    const state = JSON.parse(readFileSync(path.join(place, "terraform.tfstate"), "utf8")) as State;
    const policies = state.resources.filter(({ type }) => type === "aws_iam_role_policy");
    const texts = policies.flatMap(({ instances }) =>
      instances.map(({ attributes }) => attributes),
    );
    const own = texts.find(({ name }) => name === "kip")?.policy ?? "";
    assert.deepEqual(JSON.parse(own), wanted);
    assert.match(texts.find(({ name }) => name === "pass-roles")?.policy ?? "", /role\/kip-pods/);

    await terraform(place, "destroy", "-auto-approve", "-input=false");
    const left = JSON.parse(readFileSync(path.join(place, "terraform.tfstate"), "utf8")) as State;
    assert.deepEqual(left.resources, []);
  });
});

interface Outputs {
  readonly provider_yaml: string;
  readonly cell_subnet_ids: readonly string[];
  readonly efs_volume_handle: string;
}

/** The fields of a plan that this test reads. */
interface ShownPlan {
  readonly resource_changes: readonly {
    readonly type: string;
    readonly change: { readonly actions: readonly string[] };
  }[];
}

/** The fields of a state that this test reads. */
interface State {
  readonly resources: readonly {
    readonly type: string;
    readonly instances: readonly {
      readonly attributes: { readonly name?: string; readonly policy?: string };
    }[];
  }[];
}

function rootModule(url: string): string {
  const services = ["ec2", "eks", "iam", "efs", "sts"];
  return `
provider "aws" {
  region                      = "eu-west-1"
  access_key                  = "test"
  secret_key                  = "test"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  endpoints {
${services.map((name) => `    ${name} = "${url}"`).join("\n")}
  }
}
module "kip" {
  source         = "./module"
  efs_enable     = true
  pass_role_arns = ["arn:aws:iam::123456789012:role/kip-pods"]
}
output "kip" {
  value = module.kip
}
`;
}
