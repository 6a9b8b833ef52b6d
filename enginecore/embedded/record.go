package embedded

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strconv"
)

// A log or snapshot is a header and then records:
//
//	header   magic[8] generation[8] first sequence number[8] crc[4]
//	record   magic[4] payload length[4] sequence number[8] crc[4] payload
//	payload  commands: number of words, then length and bytes of each, all numbers as uvarints
//
// Numbers in headers are little-endian; the crc is CRC-32C over everything else in the header and the payload. One
// record is one unit: it is applied as a whole or not at all.
const (
	fileMagic    = "FFABRIC1"
	recordMagic  = "\xf7FR\x01"
	fileHeader   = 28
	recordHeader = 20
	// maxRecord bounds a length before it is believed.
	maxRecord = 1 << 31
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// startRecord leaves room for the header.
func startRecord(b []byte) []byte { return append(b[:0], make([]byte, recordHeader)...) }

func appendCommand(b []byte, words []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(words)))
	for _, w := range words {
		b = binary.AppendUvarint(b, uint64(len(w)))
		b = append(b, w...)
	}
	return b
}

// sealRecord fills in the header of a finished record.
func sealRecord(b []byte, seq uint64) {
	copy(b, recordMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-recordHeader))
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint32(b[16:], recordSum(b))
}

func recordSum(b []byte) uint32 {
	sum := crc32.Update(0, castagnoli(), b[4:16])
	return crc32.Update(sum, castagnoli(), b[recordHeader:])
}

// openRecord checks the record at the front of b and returns its length and sequence number, or why it is bad.
func openRecord(b []byte) (n int, seq uint64, reason string) {
	if len(b) < recordHeader {
		return 0, 0, "record header is incomplete"
	}
	if string(b[:4]) != recordMagic {
		return 0, 0, "no record begins here"
	}
	size := binary.LittleEndian.Uint32(b[4:])
	if size > maxRecord || int64(size) > int64(len(b)-recordHeader) {
		return 0, 0, "record of " + strconv.FormatUint(uint64(size), 10) + " bytes is incomplete"
	}
	n = recordHeader + int(size)
	if binary.LittleEndian.Uint32(b[16:]) != recordSum(b[:n]) {
		return 0, 0, "checksum does not match"
	}
	return n, binary.LittleEndian.Uint64(b[8:]), ""
}

// readCommands calls fn for each command of a payload; it reports false for a malformed one.
func readCommands(p []byte, fn func(words []string) error) (ok bool, err error) {
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

func makeHeader(gen, seq uint64) []byte {
	b := make([]byte, 0, fileHeader)
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint64(b, gen)
	b = binary.LittleEndian.AppendUint64(b, seq)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// readHeader returns the first sequence number of a file of generation gen, or why the header is bad.
func readHeader(b []byte, gen uint64) (seq uint64, reason string) {
	switch {
	case len(b) < fileHeader:
		return 0, "file header is incomplete"
	case string(b[:8]) != fileMagic:
		return 0, "not a data file of this format"
	case binary.LittleEndian.Uint32(b[24:]) != crc32.Checksum(b[:24], castagnoli()):
		return 0, "checksum of the file header does not match"
	case binary.LittleEndian.Uint64(b[8:]) != gen:
		return 0, "file header names another generation"
	}
	return binary.LittleEndian.Uint64(b[16:]), ""
}

// validRecordAfter reports whether any intact record begins behind the front of b.
func validRecordAfter(b []byte) bool {
	for i := 1; i < len(b); i++ {
		j := bytes.Index(b[i:], []byte(recordMagic))
		if j < 0 {
			return false
		}
		i += j
		if _, _, reason := openRecord(b[i:]); reason == "" {
			return true
		}
	}
	return false
}

// claimedRecord returns the length stated by the record at the front of b, or 0 if no record begins there.
func claimedRecord(b []byte) int {
	if len(b) < recordHeader || string(b[:4]) != recordMagic {
		return 0
	}
	return recordHeader + int(min(binary.LittleEndian.Uint32(b[4:]), maxRecord))
}
