import { X509Certificate } from "node:crypto";
import { isIP, isIPv4 } from "node:net";
import { isAbsolute } from "node:path";
import { bytes, isCodedError, parseQuantity } from "@kip/base";
import { sysctlPatternProblem } from "../../admission/sysctls.ts";
import { readInstanceProfile } from "../../annotations/launch-extras.ts";
import { Flaw, type Kind } from "./key.ts";

/** Any text. */
export const text: Kind<string> = {
  expected: "text",
  schema: { type: "string" },
  read: (value) => (typeof value === "string" ? value : undefined),
};

/** The value of a key that has no effect. Its form does not matter. */
export const anything: Kind<string> = {
  ...text,
  expected: "anything",
  schema: {},
  read: String,
};

/**
 * A property of an image. The ID of an account may be without quotes, as in the original's own files. YAML reads it as a number,
 * which has lost zeros at the beginning.
 */
export const imageProperty: Kind<string> = {
  ...text,
  schema: { type: ["string", "integer"] },
  read: (value) => {
    if (typeof value !== "number") return text.read(value);
    if (/^\d{12}$/.test(String(value))) return String(value);
    return new Flaw(`text expected, found ${value}`, "Write it in quotes");
  },
};

/** Text that messages do not quote. */
export const secretText: Kind<string> = { ...text, isSecret: true };

/** true or false. */
export const flag: Kind<boolean> = {
  expected: "true or false",
  schema: { type: "boolean" },
  read: (value) => (typeof value === "boolean" ? value : undefined),
};

/** A whole number within both limits, inclusive. */
export function integer(min: number, max: number = Number.MAX_SAFE_INTEGER): Kind<number> {
  const hasEnd = max < Number.MAX_SAFE_INTEGER;
  return {
    expected: `a whole number ${hasEnd ? `from ${min} to ${max}` : `of ${min} or more`}`,
    schema: { type: "integer", minimum: min, ...(hasEnd && { maximum: max }) },
    read: (value) =>
      Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max
        ? Number(value)
        : undefined,
  };
}

/** A time in seconds, above 0 and within a timer's limit. */
export const seconds: Kind<number> = {
  expected: "a number of seconds above 0",
  schema: { type: "number", exclusiveMinimum: 0, maximum: 2_000_000 },
  read: (value) => (typeof value === "number" && value > 0 && value <= 2e6 ? value : undefined),
};

/** One of several words. */
export function oneOf<const T extends string>(...words: readonly T[]): Kind<T> {
  return {
    expected: `one of ${words.join(", ")}`,
    schema: { enum: words },
    read: (value) => words.find((word) => word === value),
  };
}

/** Text that a test accepts. */
export function textWhich(
  expected: string,
  accepts: (text: string) => boolean,
  example?: string,
): Kind<string> {
  return {
    expected,
    schema: { type: "string" },
    read: (value) => {
      if (typeof value !== "string") return undefined;
      if (accepts(value)) return value;
      return new Flaw(
        `"${value.slice(0, 64)}" is not ${expected}`,
        example === undefined ? undefined : `Write for example ${example}`,
      );
    },
  };
}

/** A Kubernetes quantity of 0 or more, as text. Also accepts a number. */
export const quantity: Kind<string> = {
  expected: "a quantity",
  schema: { type: ["string", "number"] },
  read: (value) => {
    if (typeof value !== "string" && typeof value !== "number") return undefined;
    try {
      if (parseQuantity(String(value)) >= 0) return String(value);
      return new Flaw("it is below 0");
    } catch (error) {
      if (!isCodedError(error)) throw error;
      return new Flaw(`"${String(value).slice(0, 64)}" is not a quantity`, error.remedy);
    }
  },
};

/** A size of at least this many bytes, as text. */
export function sizeFrom(least: number, shown: string): Kind<string> {
  return {
    ...quantity,
    expected: `a quantity of ${shown} or more`,
    read: (value) => {
      const found = quantity.read(value);
      if (typeof found !== "string" || bytes(found) >= least) return found;
      return new Flaw(`${found} is less than ${shown}`);
    },
  };
}

/** The absolute path of a file or folder. */
export const absolutePath: Kind<string> = textWhich(
  "an absolute path",
  isAbsolute,
  "/etc/kip/file; the whole path, from / on",
);

/** An entry of a kubelet's `allowedUnsafeSysctls`. */
export const sysctlPattern: Kind<string> = {
  ...text,
  expected: "a sysctl, or the beginning of one with an asterisk at the end",
  read: (value) => {
    if (typeof value !== "string") return undefined;
    const problem = sysctlPatternProblem(value);
    if (problem === undefined) return value;
    return new Flaw(
      `"${value.slice(0, 64)}" ${problem}`,
      "Write sysctls of kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*, for example net.core.somaxconn",
    );
  },
};

/** A range of addresses with its prefix length. */
export const cidr: Kind<string> = textWhich("a range of addresses", isCidr, "10.0.0.0/16");

export function isCidr(range: string): boolean {
  return isCidrOf(range, 4, 0, 32) || isCidrOf(range, 6, 0, 128);
}

/** A range of one family, whose prefix length is within both limits. */
export function cidrOf(family: 4 | 6, min: number, max: number, example: string): Kind<string> {
  return textWhich(
    `an IPv${family} range of /${min} to /${max}`,
    (range) => isCidrOf(range, family, min, max),
    example,
  );
}

function isCidrOf(range: string, family: 4 | 6, min: number, max: number): boolean {
  const [, base = "", length = ""] = /^([^/]+)\/(\d{1,3})$/.exec(range) ?? [];
  return isIP(base) === family && Number(length) >= min && Number(length) <= max;
}

/** One IPv4 address. */
export const ipv4Address: Kind<string> = textWhich("an IPv4 address", isIPv4);

/** One address. */
export const address: Kind<string> = textWhich("an IP address", (text) => isIP(text) !== 0);

/** An instance profile, which determines a machine's permissions on AWS. */
export const instanceProfile: Kind<string> = textWhich(
  "the name or the ARN of an instance profile",
  (name) => readInstanceProfile(name) !== undefined,
);

/** The name of an instance type, or a pattern. As in the original, AWS' t1 types are refused, because they cannot run cells. */
export const instanceType: Kind<string> = textWhich(
  "an instance type that cells can have",
  (name) => /^[\w.*-]{2,253}$/.test(name) && !name.startsWith("t1."),
  "t3.medium, or a pattern such as t3.*",
);

/** A DNS label, which becomes part of tags and names. */
export const dnsLabel: Kind<string> = {
  ...textWhich(
    "a DNS label of at most 63 characters",
    (name) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name),
    "kip-test",
  ),
  schema: { type: "string", pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" },
};

/** A base URL without credentials. */
export const url: Kind<string> = {
  ...secretText,
  expected: "a URL",
  read: (value) => {
    if (typeof value !== "string") return undefined;
    const parsed = URL.parse(value);
    if (!parsed || !/^https?:$/.test(parsed.protocol))
      return new Flaw(
        `"${hidden(value)}" is not a valid URL`,
        "Write for example https://mirror.example.com:5000",
      );
    if (parsed.username === "" && parsed.password === "") return value;
    return new Flaw(
      `"${hidden(value)}" has credentials in it`,
      "Write them as username and password of the entry with this host",
    );
  },
};

/** The URL of a proxy, which may include credentials. */
export const proxyUrl: Kind<string> = {
  ...secretText,
  expected: "a URL",
  read: (value) => {
    if (typeof value !== "string") return undefined;
    if (/^https?:$/.test(URL.parse(value)?.protocol ?? "")) return value;
    return new Flaw(
      `"${hidden(value)}" is not a valid URL`,
      "Write for example http://proxy.example.com:3128",
    );
  },
};

/** The URL without user and password. */
function hidden(text: string): string {
  return text
    .slice(0, 4096)
    .replace(/^([a-z]+:\/\/)?[^@]*@/i, "$1…@")
    .slice(0, 128);
}

/** A registry, as written in image names. */
export const registryHost: Kind<string> = {
  ...secretText,
  expected: "a host, as in image names",
  read: (value) => {
    if (typeof value !== "string") return undefined;
    if (/^[a-z0-9][a-z0-9.-]*(:\d{1,5})?$|^\[[0-9a-f:]+\](:\d{1,5})?$/.test(value)) return value;
    return new Flaw(
      `"${hidden(value)}" is not a host as in image names, lower case, with its port`,
      value.includes("://")
        ? "Write the URL as endpoint"
        : "Write for example registry.example.com:5000",
    );
  },
};

/** Certificates in PEM. */
export const certificates: Kind<string> = {
  ...secretText,
  expected: "PEM certificates",
  read: (value) => {
    if (typeof value !== "string") return undefined;
    const found = value.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    const remedy = "Write the certificates themselves, in PEM";
    if (found.length === 0) return new Flaw("there is no PEM certificate in it", remedy);
    const broken = found.findIndex((pem) => !isCertificate(pem));
    if (broken < 0) return value;
    return new Flaw(`certificate ${broken + 1} of ${found.length} cannot be read`, remedy);
  },
};

function isCertificate(pem: string): boolean {
  try {
    void new X509Certificate(pem);
    return true;
  } catch {
    return false;
  }
}

/** The folder of the shared cache on a cell. */
export const cachePath: Kind<string> = textWhich(
  "the absolute path of a folder",
  (path) => path.startsWith("/") && path !== "/" && !path.split("/").includes(".."),
);

/** What an NFS client mounts. */
export const nfsShare: Kind<string> = textWhich(
  "<server>:/<path>",
  (share) => {
    const [, host = ""] = /^(\[[0-9a-f:]+\]|[\w.-]+):\/[^\s,]*$/i.exec(share) ?? [];
    return host !== "" && (!host.startsWith("[") || isIP(host.slice(1, -1)) === 6);
  },
  "10.20.0.2:/data",
);

const forbiddenOptions: readonly string[] = ["rw", "suid", "dev", "exec", "hard"];

/** An option of the cache's mount. */
export const mountOption: Kind<string> = {
  ...text,
  expected: "a mount option",
  read: (value) => (typeof value === "string" ? (mountFlaw(value) ?? value) : undefined),
};

/** Mount options of the cache in the original's form, for example `-o ro -o vers=4.1`. */
export const mountOptions: Kind<string> = {
  ...text,
  expected: "mount options",
  read: (value) => {
    if (typeof value !== "string") return undefined;
    const flaws = mountWords(value).map(mountFlaw);
    return flaws.find((flaw) => flaw !== undefined) ?? value;
  },
};

/** The options in the original's text, without those that cells always use. */
export function mountWords(options: string): readonly string[] {
  return options.split(/[\s,]+/).filter((word) => !["", "-o", "ro"].includes(word));
}

function mountFlaw(option: string): Flaw | undefined {
  if (/^[a-z]\w*(=[\w.:-]+)?$/.test(option) && !forbiddenOptions.includes(option)) return undefined;
  return new Flaw(
    `"${option.slice(0, 64)}" is not a valid option for this mount`,
    "Cells mount read-only, without programs and devices; write for example vers=4.1",
  );
}
