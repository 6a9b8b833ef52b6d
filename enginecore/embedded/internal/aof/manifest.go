package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// manifest records the minimum content of the data directory. Without it, a log that was emptied or removed would look
// like one that was never written. It is replaced before the first record of a new log is written, and when the log
// is opened and closed.
type manifest struct {
	gen    uint64 // the log that is appended to; later ones hold nothing
	seq    uint64 // all records before it are kept
	policy Policy // under which the log is written
}

const manifestForm = "flowfabric-data 1\ngeneration %d\nnext-record %d\nfsync %s\n"

func (p Policy) word() string {
	switch p {
	case Always:
		return "always"
	case EverySecond:
		return "everysec"
	}
	return "never"
}

func (d *disk) manifestPath() string { return filepath.Join(d.dir, "MANIFEST") }

func (m manifest) text() []byte {
	text := fmt.Appendf(nil, manifestForm, m.gen, m.seq, m.policy.word())
	return fmt.Appendf(text, "crc32c %08x\n", record.Checksum(text))
}

// readManifest returns the manifest, or nil when there is none: the directory is new or was written by a version
// without.
func (d *disk) readManifest() (*manifest, error) {
	path := d.manifestPath()
	data, err := d.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("embedded: read manifest: %w", err)
	}
	var m manifest
	var word string
	if _, err := fmt.Sscanf(string(data), manifestForm, &m.gen, &m.seq, &word); err == nil {
		for _, m.policy = range []Policy{Always, EverySecond, Never} {
			if string(m.text()) == string(data) {
				return &m, nil
			}
		}
	}
	return nil, &CorruptError{
		Path: path, Reason: "not a whole manifest; without it, the directory opens with the data that is left",
	}
}

func (d *disk) writeManifest(m manifest) (renamed bool, err error) {
	return d.put(d.manifestPath(), m.text())
}
