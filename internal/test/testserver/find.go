package testserver

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const modulePath = "github.com/flowfabric/flowfabric-go"

// The versions that FlowFabric promises to run on.
var majors = map[Kind]string{Redis: "7", Valkey: "8"}

// Available returns the program that [Start] runs for k. In this order: the program in FLOWFABRIC_REDIS_SERVER or
// FLOWFABRIC_VALKEY_SERVER, whatever its version; the server on PATH; the one that `make servers` unpacked. The last
// two count only in the tested major version: Redis 7 and Valkey 8.
func Available(k Kind) (path string, ok bool) {
	if path := os.Getenv(variable(k)); path != "" {
		path, err := exec.LookPath(path)
		return path, err == nil
	}
	if path, err := exec.LookPath(program(k)); err == nil && isTested(k, path) {
		return path, true
	}
	cache, err := Cache()
	if err != nil {
		return "", false
	}
	path = filepath.Join(cache, "bin", program(k))
	return path, isTested(k, path)
}

// Browser returns the Chromium for tests of pages: the program in CHROMIUM, the one on PATH, or the one that `make
// browser` unpacked, in this order.
func Browser() (path string, ok bool) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		path, err := exec.LookPath(path)
		return path, err == nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return Tool("chromium")
}

// Tool finds another program that tests use, such as prometheus: on the PATH, or in the folder of `make servers`.
func Tool(name string) (path string, ok bool) {
	if path, err := exec.LookPath(name); err == nil {
		return path, true
	}
	cache, err := Cache()
	if err != nil {
		return "", false
	}
	path, err = exec.LookPath(filepath.Join(cache, "bin", name))
	return path, err == nil
}

// Cache returns the folder into which missing programs are downloaded: .cache/servers of this checkout, where `make
// servers` does so, and outside of one, for tests of other modules, flowfabric-go/servers in the user's cache folder.
func Cache() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if isModule(filepath.Join(dir, "go.mod")) {
			return filepath.Join(dir, ".cache", "servers"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			user, err := os.UserCacheDir()
			if err != nil {
				return "", fmt.Errorf("testserver: no folder for servers: %w", err)
			}
			return filepath.Join(user, "flowfabric-go", "servers"), nil
		}
		dir = parent
	}
}

// Hint describes the remedy for a missing server that cannot be downloaded.
func Hint(k Kind) string {
	return fmt.Sprintf("install %s %s, or let %s name one", program(k), majors[k], variable(k))
}

func program(k Kind) string { return string(k) + "-server" }

func variable(k Kind) string { return "FLOWFABRIC_" + strings.ToUpper(string(k)) + "_SERVER" }

var version = regexp.MustCompile(`^(Redis|Valkey) server v=(\d+)\.`)

// isTested runs the program to get its version: a redis-server on PATH may be Valkey under its old name.
func isTested(k Kind, path string) bool {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return false
	}
	m := version.FindSubmatch(out)
	return m != nil && strings.EqualFold(string(m[1]), string(k)) && string(m[2]) == majors[k]
}

func isModule(goMod string) bool {
	f, err := os.Open(goMod)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "module "); ok {
			return strings.TrimSpace(rest) == modulePath
		}
	}
	return false
}
