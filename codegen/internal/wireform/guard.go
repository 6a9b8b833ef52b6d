package wireform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// File is the path of a protocol's recorded wire form, from the module's root.
func File(protocol int) string { return fmt.Sprintf("testdata/wire/protocol-%d.txt", protocol) }

// Keep compares the functions with the recorded wire form of every protocol that the library supports. If a
// change breaks programs of a protocol, the error names the change and the remedy, and outputs keeps the recorded form.
func Keep(root string, l *header.Library, outputs map[string]string) error {
	kept := map[int]string{}
	for protocol := lualib.MinProtocol; protocol <= lualib.Protocol; protocol++ {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(File(protocol))))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		kept[protocol] = string(text)
	}
	err := compare(kept, l)
	if err != nil && kept[lualib.Protocol] != "" {
		outputs[File(lualib.Protocol)] = kept[lualib.Protocol]
	}
	return err
}

// compare checks the functions against wire forms by protocol.
func compare(kept map[int]string, l *header.Library) error {
	var faults []string
	for protocol := lualib.MinProtocol; protocol <= lualib.Protocol; protocol++ {
		form, err := readWireForm(File(protocol), kept[protocol])
		if err != nil {
			return err
		}
		for _, fault := range append(breaks(form.functions, l), brokenTexts(form.texts, l)...) {
			faults = append(faults, fmt.Sprintf("  protocol %d: %s", protocol, fault))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New("the wire form changed so that programs in use break, " +
		"which share a server with newer ones during a roll-out:\n" + strings.Join(faults, "\n") + "\n" + wireAdvice)
}

const wireAdvice = `Choose one:
  - Make the change an addition: a new argument, optional or omittable, or a new value of a reply, at the end; or a
    function with another name beside the old one. What old programs do not send must mean what it meant.
  - For ffx_* functions, give up programs of older releases: raise Protocol and MinProtocol in internal/lualib, and
    say so in CHANGELOG.md and docs/operations/upgrades.md. Such programs stop with enginecore.ErrIncompatibleLibrary.
    ff_* functions belong to the contract; their form does not change.
  - Send another message or text beside the old one: programs ignore messages that they do not know. A message whose
    last value is not free text may gain an optional part at the end.
  - If no release has the old form yet, take the new one: go run ./codegen -accept-wire-form`
