// Prints containerd's default profile of system calls for each processor, without capabilities and with each of them.
// tools/generate-seccomp-table.ts puts it beside containerd's own source, where Architecture takes the place of the
// processor that the program was built for.
package main

import (
	"encoding/json"
	"os"

	"github.com/containerd/containerd/v2/pkg/cap"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

var Architecture string

func main() {
	profiles := map[string]map[string]*specs.LinuxSeccomp{}
	for _, Architecture = range []string{"amd64", "arm64"} {
		profiles[Architecture] = map[string]*specs.LinuxSeccomp{"": profile()}
		for _, capability := range cap.Known() {
			profiles[Architecture][capability] = profile(capability)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(profiles); err != nil {
		panic(err)
	}
}

func profile(capabilities ...string) *specs.LinuxSeccomp {
	given := &specs.LinuxCapabilities{Bounding: capabilities}
	return DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: given}, Linux: &specs.Linux{}})
}
