// The images that conformance specs name. Kubernetes publishes them in its own registry; here each has the same programs where
// they are Go packages of Kubernetes, and Debian's programs for the rest. Their tags are those that the specs' program names.

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
  /** @default false */
  readonly hasNetworkPrograms?: boolean;
  /** `localhost.crt` and `localhost.key` below `/`. @default false */
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
  "bash",
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

const agnhost: Omit<SpecImage, "repository"> = {
  hasNetworkPrograms: true,
  hasCertificate: true,
  programs: [
    { path: "agnhost", from: { built: "agnhost" } },
    { path: "bin/bash", from: { debian: "bin/bash" } },
  ],
  links: { "agnhost-2": "agnhost" },
  folders: ["uploads"],
  // One spec compares the groups that the image gives its user.
  files: {
    "etc/passwd":
      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
    "etc/group":
      "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
    // A spec of image volumes reads there that the published image is made on Alpine Linux.
    "etc/os-release": 'NAME="Alpine Linux"\n',
  },
  config: { Entrypoint: ["/agnhost"], Cmd: ["pause"] },
};

/** A picture's description, which the update demo asks its pods for. */
function picture(name: string): SpecImage {
  return {
    ...agnhost,
    repository: `e2e-test-images/${name}`,
    files: { ...agnhost.files, "data.json": `{"image": "${name}.jpg"}\n`, [`${name}.jpg`]: name },
    config: { Entrypoint: ["/agnhost"], Cmd: ["test-webserver"] },
  };
}

/** What DNS is asked with; the name differs between versions. */
function dnsPrograms(name: string): SpecImage {
  return {
    repository: `e2e-test-images/${name}`,
    hasNetworkPrograms: true,
    config: { Cmd: ["sh"] },
  };
}

export const specImages: readonly SpecImage[] = [
  { ...agnhost, repository: "e2e-test-images/agnhost" },
  picture("nautilus"),
  picture("kitten"),
  {
    repository: "e2e-test-images/busybox",
    // The image's own busybox is both: one spec compares a message of `/bin/sh` with its words, others look behind `sh -c env`
    // for variables like `data-1`, which Debian's older busybox drops as not valid in a shell, and bash keeps.
    links: { "bin/sh": "busybox" },
    programs: [{ path: "usr/bin/sh", from: { debian: "bin/bash" } }],
    config: { Cmd: ["sh"] },
  },
  { repository: "e2e-test-images/nonroot", config: { Cmd: ["sh"], User: "1234" } },
  dnsPrograms("jessie-dnsutils"),
  dnsPrograms("glibc-dns-testing"),
  {
    repository: "pause",
    files: {
      pause: "#!/bin/sh\ntrap 'exit 0' INT TERM\nwhile :; do sleep 1000000 & wait $!; done\n",
    },
    config: { Entrypoint: ["/pause"] },
  },
  {
    repository: "e2e-test-images/httpd",
    files: {
      "usr/local/apache2/htdocs/index.html": "<html><body><h1>It works!</h1></body></html>\n",
    },
    config: { Cmd: ["busybox", "httpd", "-f", "-p", "80", "-h", "/usr/local/apache2/htdocs"] },
  },
  {
    repository: "e2e-test-images/nginx",
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
    programs: [{ path: "usr/local/bin/nnp", from: { built: "nonewprivs" }, mode: 0o6755 }],
    config: { Cmd: ["nnp"] },
  },
  {
    repository: "e2e-test-images/sample-apiserver",
    programs: [{ path: "kube-sample-apiserver", from: { built: "sample-apiserver" } }],
    config: { Entrypoint: ["/kube-sample-apiserver"] },
  },
  {
    repository: "etcd",
    programs: [{ path: "usr/local/bin/etcd", from: { controlPlane: "etcd" } }],
    config: { Cmd: ["/usr/local/bin/etcd"] },
  },
];
