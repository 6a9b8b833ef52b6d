package rowread

import (
	"encoding/hex"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// The parts of an entry of a list of runs.
const (
	entryTimeBytes = 7
	entryIDBytes   = 14
)

// ListEntry returns the entry of a list of runs for a run, at a time (Unix µs).
func ListEntry(at int64, id enginecore.FlowID) string {
	bytes, _ := hex.DecodeString(strings.ReplaceAll(string(id), "-", ""))
	return string(append(appendLittleEndian(nil, at, entryTimeBytes), bytes[:entryIDBytes]...))
}

// ReadListEntry returns the time and the run of an entry of a list of runs, and the text after them; ok is false for
// another text.
func ReadListEntry(entry string) (at int64, id enginecore.FlowID, name string, ok bool) {
	const size = entryTimeBytes + entryIDBytes
	if len(entry) < size {
		return 0, "", "", false
	}
	digits := hex.EncodeToString([]byte(entry[entryTimeBytes:size])) + "0000"
	id = enginecore.FlowID(strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-"))
	return littleEndian([]byte(entry[:entryTimeBytes])), id, entry[size:], true
}
