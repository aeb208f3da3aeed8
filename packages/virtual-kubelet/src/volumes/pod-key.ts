import { constants, generateKeyPair, sign, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import { unresolved } from "../references/reference.ts";

/** A key of a pod as a request for its certificate wants it. */
export interface PodKey {
  /** PKCS #8, PEM. */
  readonly privatePem: string;
  /** PKIX, in base64. */
  readonly publicKey: string;
  /** The pod's UID signed with the key, in base64. */
  readonly proof: string;
  /** PKCS #10 without a name, signed with the key: both in one, in base64. */
  readonly request: string;
}

const generate = promisify(generateKeyPair);

/**
 * Makes a key.
 *
 * @param type `RSA3072`, `RSA4096`, `ECDSAP256`, `ECDSAP384`, `ECDSAP521` or `ED25519`
 * @throws {VirtualKubeletError} `VK_UNRESOLVED` for another type
 */
export async function createPodKey(type: string, podUid: string): Promise<PodKey> {
  const { publicKey, privateKey } = await pairOf(type);
  const uid = Buffer.from(podUid);
  const publicDer = publicKey.export({ type: "spki", format: "der" });
  return {
    privatePem: String(privateKey.export({ type: "pkcs8", format: "pem" })),
    publicKey: publicDer.toString("base64"),
    proof: signed(uid, privateKey).toString("base64"),
    request: signingRequest(publicDer, privateKey).toString("base64"),
  };
}

interface Pair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

async function pairOf(type: string): Promise<Pair> {
  switch (type) {
    case "RSA3072":
    case "RSA4096":
      return await generate("rsa", { modulusLength: Number(type.slice(3)) });
    case "ECDSAP256":
    case "ECDSAP384":
    case "ECDSAP521":
      return await generate("ec", { namedCurve: `P-${type.slice(-3)}` });
    case "ED25519":
      return await generate("ed25519");
    default:
      throw unresolved(`unknown key type "${type}"`);
  }
}

function signed(data: Buffer, key: KeyObject): Buffer {
  if (key.asymmetricKeyType === "ed25519") return sign(null, data, key);
  if (key.asymmetricKeyType === "ec") return sign("sha256", data, key);
  return sign("sha256", data, { key, padding: constants.RSA_PKCS1_PSS_PADDING });
}

/** Version 0, no name, the key, no attributes; then how it is signed, and the signature. */
function signingRequest(publicDer: Buffer, key: KeyObject): Buffer {
  const info = der(0x30, Buffer.from([2, 1, 0]), der(0x30), publicDer, der(0xa0));
  const kind = key.asymmetricKeyType ?? "";
  const algorithm = Buffer.from(signatureAlgorithms.get(kind) ?? "", "hex");
  const signature = sign(kind === "ed25519" ? null : "sha256", info, key);
  return der(0x30, info, algorithm, der(0x03, Buffer.from([0]), signature));
}

/** Ed25519, ecdsa-with-SHA256 and sha256WithRSAEncryption as DER. */
const signatureAlgorithms: ReadonlyMap<string, string> = new Map([
  ["ed25519", "300506032b6570"],
  ["ec", "300a06082a8648ce3d040302"],
  ["rsa", "300d06092a864886f70d01010b0500"],
]);

/** A value of DER: its tag, its length, and what it is made of. At most 65,535 bytes. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
