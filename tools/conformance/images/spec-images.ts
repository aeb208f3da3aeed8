// The images that conformance specs name. Kubernetes publishes them in its own registry. The images here have the same programs
// if these are Go packages of Kubernetes, and Debian's programs otherwise. Their tags are those that the specs' program names.

/**
 * Source of a program in an image: built from Kubernetes, the control plane, or Debian's packages with the required libraries.
 */
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

/** An image. Its base is busybox with a shell. */
export interface SpecImage {
  /** Repository of registry.k8s.io. */
  readonly repository: string;
  /** @default false */
  readonly hasNetworkPrograms?: boolean;
  /** Whether it contains `/localhost.crt` and `/localhost.key`. @default false */
  readonly hasCertificate?: boolean;
  readonly programs?: readonly ImageProgram[];
  /** Content by path. Content that begins with `#!` is executable. */
  readonly files?: Readonly<Record<string, string>>;
  readonly folders?: readonly string[];
  /** Link targets by path. */
  readonly links?: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Debian packages that contain the programs below. */
export const debianPackages = [
  "bash",
  "bind9-dnsutils",
  "curl",
  "iproute2",
  "libc-bin",
  "netcat-openbsd",
  "nginx-light",
];

/** Programs with which pods send requests to servers. They are in their own layer, which images share. */
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
  // A spec compares the groups that the image gives its user.
  files: {
    "etc/passwd":
      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
    "etc/group":
      "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
    // A spec about image volumes expects the published image, which is based on Alpine Linux.
    "etc/os-release": 'NAME="Alpine Linux"\n',
  },
  config: { Entrypoint: ["/agnhost"], Cmd: ["pause"] },
};

/** The description of a picture, which the update demo requests from its pods. */
function picture(name: string): SpecImage {
  return {
    ...agnhost,
    repository: `e2e-test-images/${name}`,
    files: { ...agnhost.files, "data.json": `{"image": "${name}.jpg"}\n`, [`${name}.jpg`]: name },
    config: { Entrypoint: ["/agnhost"], Cmd: ["test-webserver"] },
  };
}

/** Programs for DNS queries. The image's name differs between versions. */
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
    // The published image only has busybox's shell. One spec expects a message in the words of its `/bin/sh`. Others expect
    // that `sh -c env` prints variables like `data-1`, which Debian's older busybox drops as invalid. bash keeps them.
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
