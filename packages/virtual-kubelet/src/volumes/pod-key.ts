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
  return {
    privatePem: String(privateKey.export({ type: "pkcs8", format: "pem" })),
    publicKey: publicKey.export({ type: "spki", format: "der" }).toString("base64"),
    proof: signed(uid, privateKey).toString("base64"),
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
