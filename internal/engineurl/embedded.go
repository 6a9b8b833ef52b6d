package engineurl

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
)

// parseEmbedded reads "", "embedded:" and "embedded:DIR", with the options fsync=POLICY and contract=15 after a "?".
func parseEmbedded(raw string) (Target, error) {
	t := Target{Text: "embedded:", Embedded: true}
	rest := strings.TrimPrefix(strings.TrimPrefix(raw, "embedded"), ":")
	dir, query, _ := strings.Cut(rest, "?")
	if after, found := strings.CutPrefix(dir, "//"); found {
		if !strings.HasPrefix(after, "/") {
			return Target{}, fmt.Errorf("%w: embedded has no host: a directory is embedded:%s", errURL, after)
		}
		dir = after
	}
	if dir == "~" || strings.HasPrefix(dir, "~/") {
		return Target{}, fmt.Errorf("%w: directory %s: a ~ is not replaced here: name the whole path, as in embedded:/home/ann/data", errURL, dir)
	}
	t.Dir = dir
	t.Text += dir
	values, err := url.ParseQuery(query)
	if err != nil {
		return Target{}, fmt.Errorf("%w: %s", errURL, err)
	}
	for name, value := range values {
		if len(value) > 1 {
			return Target{}, fmt.Errorf("%w: %s is given %d times: once is allowed", errURL, name, len(value))
		}
		if name == contractOption {
			if err := checkContractVersion(value[0]); err != nil {
				return Target{}, err
			}
			t.Contract = true
			continue
		}
		if name != "fsync" {
			return Target{}, fmt.Errorf("%w: unknown option %q of embedded: there are fsync and %s", errURL, name,
				contractOption)
		}
		switch value[0] {
		case "always":
			t.Fsync = embedded.FsyncAlways
		case "everysec":
			t.Fsync = embedded.FsyncEverySecond
		case "never":
			t.Fsync = embedded.FsyncNever
		default:
			return Target{}, fmt.Errorf("%w: fsync=%s: must be always, everysec or never", errURL, value[0])
		}
	}
	return t, nil
}
