//go:build unix

package download

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// Chromium starts itself again, so it cannot run through the loader of its package as the servers do: it takes the C
// library of the machine, and the other libraries and fonts from below root.
const browserWrapper = `#!/bin/sh
root=$(CDPATH= cd -- "$(dirname -- "$0")/../%[1]s" && pwd) || exit
LD_LIBRARY_PATH="%[2]s" FONTCONFIG_FILE="$root/fonts.conf" exec "$root/usr/lib/chromium/chromium" "$@"
`

const fontConfig = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
`

func browser() item {
	return item{
		name:     "chromium",
		packages: []string{"chromium", "chromium-common", "fonts-liberation"},
		omit:     []string{"libc6"},
		share:    true,
		hint:     "install chromium, or set CHROMIUM to its path",
		find:     testserver.Browser,
		wrap:     wrapBrowser,
	}
}

// Browser fetches Chromium if there is none, and returns its path.
func Browser() (string, error) {
	if err := run([]item{browser()}); err != nil {
		return "", err
	}
	path, _ := testserver.Browser()
	return path, nil
}

func wrapBrowser(bin, root string) error {
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libnss3.so"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("no folder of libraries was unpacked: %d found", len(found))
	}
	libraries, err := filepath.Rel(filepath.Join(root, "usr"), filepath.Dir(found[0]))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "fonts.conf"), []byte(fontConfig), 0o644); err != nil {
		return err
	}
	script := fmt.Sprintf(browserWrapper, filepath.Base(root),
		"$root/usr/"+libraries+":$root/"+libraries+":$root/usr/"+libraries+"/pulseaudio")
	return writeCommand(filepath.Join(bin, "chromium"), script)
}
