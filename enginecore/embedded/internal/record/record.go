// Package record has the binary form of the engine's files: records with checksums, each of which holds the commands of
// one unit. It does not interpret commands.
package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"strconv"
)

// The form of a file. A log or snapshot is a header and then records:
//
//	header   magic[8] generation[8] first sequence number[8] crc[4]
//	record   magic[4] payload length[4] sequence number[8] crc[4] payload
//	payload  commands: number of words, then length and bytes of each, all numbers as uvarints
//
// Numbers in headers are little-endian; the crc is CRC-32C over everything else in the header and the payload. One
// record is one unit: it is applied as a whole or not at all.
const (
	// FileHeaderSize and HeaderSize are the sizes of the headers of a file and of a record, in bytes.
	FileHeaderSize = 28
	HeaderSize     = 20

	fileMagic = "FFABRIC1"
	magic     = "\xf7FR\x01"
	// maxPayload bounds a length before it is believed.
	maxPayload = 1 << 31
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Checksum returns the checksum of b, as all files of the engine have it.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

// Start begins a record in the memory of b: it leaves room for the header.
func Start(b []byte) []byte { return append(b[:0], make([]byte, HeaderSize)...) }

// AppendCommand adds a command to a record that has been started.
func AppendCommand(b []byte, words []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(words)))
	for _, w := range words {
		b = binary.AppendUvarint(b, uint64(len(w)))
		b = append(b, w...)
	}
	return b
}

// durableVerb is the verb of the command that AppendDurable adds. It does not change data.
const durableVerb = "\x00DURABLE"

// AppendDurable adds to a record how much of its file was durable when it was written, in bytes. A record without it
// was written when all before it was durable.
func AppendDurable(b []byte, size int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], size, 10)
	b = binary.AppendUvarint(b, 2)
	b = binary.AppendUvarint(b, uint64(len(durableVerb)))
	b = append(b, durableVerb...)
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// Durable reports whether a command was added by AppendDurable, and returns its size.
func Durable(words []string) (size int64, ok bool) {
	if len(words) != 2 || words[0] != durableVerb {
		return 0, false
	}
	size, err := strconv.ParseInt(words[1], 10, 64)
	return size, err == nil && size >= 0
}

// Seal completes a record: it fills in the header.
func Seal(b []byte, seq uint64) {
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-HeaderSize))
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint32(b[16:], sum(b))
}

func sum(b []byte) uint32 {
	c := crc32.Update(0, castagnoli(), b[4:16])
	return crc32.Update(c, castagnoli(), b[HeaderSize:])
}

// Open checks the record at the front of b and returns its length and sequence number, or why it is bad.
func Open(b []byte) (n int, seq uint64, reason string) {
	if len(b) < HeaderSize {
		return 0, 0, "record header is incomplete"
	}
	if string(b[:4]) != magic {
		return 0, 0, "no record begins here"
	}
	size := binary.LittleEndian.Uint32(b[4:])
	if size > maxPayload || int64(size) > int64(len(b)-HeaderSize) {
		return 0, 0, "record of " + strconv.FormatUint(uint64(size), 10) + " bytes is incomplete"
	}
	n = HeaderSize + int(size)
	if binary.LittleEndian.Uint32(b[16:]) != sum(b[:n]) {
		return 0, 0, "checksum does not match"
	}
	return n, binary.LittleEndian.Uint64(b[8:]), ""
}

// ReadCommands calls fn for each command of a payload; it reports false for a malformed one.
func ReadCommands(p []byte, fn func(words []string) error) (ok bool, err error) {
	number := func() (int, bool) {
		v, n := binary.Uvarint(p)
		if n <= 0 || v > uint64(len(p)) {
			return 0, false
		}
		p = p[n:]
		return int(v), true
	}
	for len(p) > 0 {
		count, ok := number()
		if !ok || count == 0 {
			return false, nil
		}
		words := make([]string, count)
		for i := range words {
			size, ok := number()
			if !ok || size > len(p) {
				return false, nil
			}
			words[i] = string(p[:size])
			p = p[size:]
		}
		if err := fn(words); err != nil {
			return true, err
		}
	}
	return true, nil
}

// FileHeader returns the header of a file of generation gen whose first record is seq.
func FileHeader(gen, seq uint64) []byte {
	b := make([]byte, 0, FileHeaderSize)
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint64(b, gen)
	b = binary.LittleEndian.AppendUint64(b, seq)
	return binary.LittleEndian.AppendUint32(b, Checksum(b))
}

// ReadFileHeader returns the first sequence number of a file of generation gen, or why the header is bad.
func ReadFileHeader(b []byte, gen uint64) (seq uint64, reason string) {
	switch {
	case len(b) < FileHeaderSize:
		return 0, "file header is incomplete"
	case string(b[:8]) != fileMagic:
		return 0, "not a data file of this format"
	case binary.LittleEndian.Uint32(b[24:]) != Checksum(b[:24]):
		return 0, "checksum of the file header does not match"
	case binary.LittleEndian.Uint64(b[8:]) != gen:
		return 0, "file header names another generation"
	}
	return binary.LittleEndian.Uint64(b[16:]), ""
}

// IntactAfter yields the payload of each intact record that begins after the front of b.
func IntactAfter(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 1; i < len(b); i++ {
			j := bytes.Index(b[i:], []byte(magic))
			if j < 0 {
				return
			}
			i += j
			n, _, reason := Open(b[i:])
			if reason != "" {
				continue
			}
			if !yield(b[i+HeaderSize : i+n]) {
				return
			}
			i += n - 1
		}
	}
}

// ClaimedSize returns the length stated by the record at the front of b, or 0 if no record begins there.
func ClaimedSize(b []byte) int {
	if len(b) < HeaderSize || string(b[:4]) != magic {
		return 0
	}
	return HeaderSize + int(min(binary.LittleEndian.Uint32(b[4:]), maxPayload))
}

// Writer packs commands into records of about a megabyte. The first error stays: commands after it are not written.
type Writer struct {
	w      *bufio.Writer
	record []byte
	seq    uint64
	err    error
}

// NewWriter returns a Writer whose first record has the sequence number seq.
func NewWriter(w *bufio.Writer, seq uint64) *Writer {
	return &Writer{w: w, record: Start(nil), seq: seq}
}

// Err returns the first error.
func (w *Writer) Err() error { return w.err }

// Add writes one command.
func (w *Writer) Add(words ...string) {
	w.record = AppendCommand(w.record, words)
	if len(w.record) > 1<<20 {
		w.endRecord()
	}
}

// AddItems writes a command with any number of items as several commands. No pair of items is torn apart.
func (w *Writer) AddItems(verb, key string, items []string) {
	const piece = 1024 // even, as some items are pairs
	for len(items) > 0 {
		n := min(len(items), piece)
		w.Add(append([]string{verb, key}, items[:n]...)...)
		items = items[n:]
	}
}

// Flush ends the last record, writes everything that is buffered, and returns the first error.
func (w *Writer) Flush() error {
	w.endRecord()
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

func (w *Writer) endRecord() {
	if len(w.record) == HeaderSize {
		return
	}
	Seal(w.record, w.seq)
	w.seq++
	if w.err == nil {
		_, w.err = w.w.Write(w.record)
	}
	w.record = Start(w.record)
}
