// The images that conformance specs name. Kubernetes publishes them in its own registry; here each has the same programs where
// they are Go packages of Kubernetes, and Debian's programs for the rest. The names and tags are those of
// k8s.io/kubernetes/test/utils/image of the pinned version: a spec that names another one cannot pull it.

/** Program that an image holds: from the built ones, the control plane, or Debian's packages with the libraries they need. */
export type ProgramPlace =
  | { readonly built: "agnhost" | "nonewprivs" | "sample-apiserver" }
  | { readonly controlPlane: "etcd" }
  | { readonly debian: string };

/** A program in an image. */
export interface ImageProgram {
  readonly path: string;
  readonly from: ProgramPlace;
  /** @default 0o755 */
  readonly mode?: number;
}

/** One image; below what it adds is busybox with a shell. */
export interface SpecImage {
  /** Repository of registry.k8s.io. */
  readonly repository: string;
  readonly tags: readonly string[];
  /** @default false */
  readonly hasNetworkPrograms?: boolean;
  /** `localhost.crt` and `localhost.key` below `/`, made for this image. @default false */
  readonly hasCertificate?: boolean;
  readonly programs?: readonly ImageProgram[];
  /** Content by path; an executable one begins with `#!`. */
  readonly files?: Readonly<Record<string, string>>;
  readonly folders?: readonly string[];
  /** Target by path of the link. */
  readonly links?: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Debian packages that have the programs below. */
export const debianPackages = [
  "bind9-dnsutils",
  "curl",
  "iproute2",
  "libc-bin",
  "netcat-openbsd",
  "nginx-light",
];

/** What pods ask servers with; a layer of its own, which images share. */
export const networkPrograms: readonly ImageProgram[] = [
  { path: "usr/bin/dig", from: { debian: "usr/bin/dig" } },
  { path: "usr/bin/getent", from: { debian: "usr/bin/getent" } },
  { path: "usr/bin/curl", from: { debian: "usr/bin/curl" } },
  { path: "bin/nc", from: { debian: "bin/nc.openbsd" } },
  { path: "usr/bin/ss", from: { debian: "bin/ss" } },
];

const agnhost: Omit<SpecImage, "repository" | "tags"> = {
  hasNetworkPrograms: true,
  hasCertificate: true,
  programs: [{ path: "agnhost", from: { built: "agnhost" } }],
  links: { "agnhost-2": "agnhost" },
  folders: ["uploads"],
  // One spec compares the groups that the image gives its user.
  files: {
    "etc/passwd":
      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
    "etc/group":
      "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
  },
  config: { Entrypoint: ["/agnhost"], Cmd: ["pause"] },
};

/** A picture's description, which the update demo asks its pods for. */
function picture(name: string): SpecImage {
  return {
    ...agnhost,
    repository: `e2e-test-images/${name}`,
    tags: ["1.7"],
    files: { ...agnhost.files, "data.json": `{"image": "${name}.jpg"}\n`, [`${name}.jpg`]: name },
    config: { Entrypoint: ["/agnhost"], Cmd: ["test-webserver"] },
  };
}

export const specImages: readonly SpecImage[] = [
  { ...agnhost, repository: "e2e-test-images/agnhost", tags: ["2.56"] },
  picture("nautilus"),
  picture("kitten"),
  { repository: "e2e-test-images/busybox", tags: ["1.37.0-1"], config: { Cmd: ["sh"] } },
  { repository: "e2e-test-images/nonroot", tags: ["1.4"], config: { Cmd: ["sh"], User: "1234" } },
  {
    repository: "e2e-test-images/jessie-dnsutils",
    tags: ["1.7"],
    hasNetworkPrograms: true,
    config: { Cmd: ["sh"] },
  },
  {
    repository: "pause",
    tags: ["3.10.1"],
    files: {
      pause: "#!/bin/sh\ntrap 'exit 0' INT TERM\nwhile :; do sleep 1000000 & wait $!; done\n",
    },
    config: { Entrypoint: ["/pause"] },
  },
  {
    repository: "e2e-test-images/httpd",
    tags: ["2.4.38-4", "2.4.39-4"],
    files: {
      "usr/local/apache2/htdocs/index.html": "<html><body><h1>It works!</h1></body></html>\n",
    },
    config: { Cmd: ["busybox", "httpd", "-f", "-p", "80", "-h", "/usr/local/apache2/htdocs"] },
  },
  {
    repository: "e2e-test-images/nginx",
    tags: ["1.14-4", "1.15-4"],
    programs: [{ path: "usr/sbin/nginx", from: { debian: "usr/sbin/nginx" } }],
    folders: ["var/log/nginx", "var/lib/nginx", "run"],
    files: {
      "usr/share/nginx/html/index.html": "<html><body><h1>Welcome to nginx!</h1></body></html>\n",
      "etc/nginx/nginx.conf":
        "user root;\nerror_log /dev/stderr;\npid /run/nginx.pid;\nevents {}\n" +
        "http { access_log /dev/stdout; server { listen 80; root /usr/share/nginx/html; } }\n",
    },
    config: { Cmd: ["nginx", "-g", "daemon off;"] },
  },
  {
    repository: "e2e-test-images/nonewprivs",
    tags: ["1.3"],
    programs: [{ path: "usr/local/bin/nnp", from: { built: "nonewprivs" }, mode: 0o6755 }],
    config: { Cmd: ["nnp"] },
  },
  {
    repository: "e2e-test-images/sample-apiserver",
    tags: ["1.29.2"],
    programs: [{ path: "kube-sample-apiserver", from: { built: "sample-apiserver" } }],
    config: { Entrypoint: ["/kube-sample-apiserver"] },
  },
  {
    repository: "etcd",
    tags: ["3.6.4-0"],
    programs: [{ path: "usr/local/bin/etcd", from: { controlPlane: "etcd" } }],
    config: { Cmd: ["/usr/local/bin/etcd"] },
  },
];
