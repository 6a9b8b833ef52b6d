// Package runrecord encodes the class of a run, which it shares with other runs, and its own record.
//
// Both are a version byte and a MessagePack array of texts, of which the last ones are left out while they are empty.
// The engine stores them as they are, and its library reads them where a call needs more than the header of a run.
package runrecord

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Version is the version of both encodings that this program writes and reads.
const Version = 1

// Class has the values that runs share which one program starts of one flow.
type Class struct {
	Graph     string // hash under which the engine has the graph
	GraphHash string // first 32 digits of the hash of the flow's definition
	FlowName  string
	Namespace string
	Retention string // how long runs are kept, as ffx_submit takes it; "" is for ever
	Priority  string // of runs that have one in addition to the priorities of the graph
}

// Record has the values of one run.
type Record struct {
	RunID        string
	InputHash    string // hexadecimal digits
	TraceContext string
	FairKey      string
	Creator      string
	Memo         []byte
	Parent       string // execution of the node that the run belongs to
	FailFast     bool   // the first failure stops the run
}

// hashDigits is how many digits of the hash of a definition are kept.
const hashDigits = 32

// Encode returns the stored form of a class.
func (c Class) Encode() []byte {
	graphHash := c.GraphHash[:min(len(c.GraphHash), hashDigits)]
	return appendTexts(nil, c.Graph, graphHash, c.FlowName, c.Namespace, c.Retention, c.Priority)
}

// Encode returns the stored form of a record.
func (r Record) Encode() []byte { return r.Append(nil) }

// Append appends the stored form of a record.
func (r Record) Append(to []byte) []byte {
	failFast := ""
	if r.FailFast {
		failFast = "1"
	}
	var hash [hashDigits / 2]byte
	inputHash := r.InputHash
	if len(inputHash) == hashDigits && decodeHex(hash[:], inputHash) {
		inputHash = string(hash[:])
	}
	return appendTexts(to, r.RunID, inputHash, r.TraceContext, r.FairKey, r.Creator, string(r.Memo), r.Parent, failFast)
}

// decodeHex decodes lower-case hexadecimal digits, and reports whether all of them are such digits.
func decodeHex(to []byte, digits string) bool {
	for i := range digits {
		var n byte
		switch c := digits[i]; {
		case c >= '0' && c <= '9':
			n = c - '0'
		case c >= 'a' && c <= 'f':
			n = c - 'a' + 10
		default:
			return false
		}
		to[i/2] = to[i/2]<<4 | n
	}
	return true
}

func unpackHash(hash string) string {
	if len(hash) != hashDigits/2 {
		return hash
	}
	return hex.EncodeToString([]byte(hash))
}

// DecodeClass reads the stored form of a class.
func DecodeClass(stored string) (Class, error) {
	f, err := decode(stored, "class")
	return Class{
		Graph: f[0], GraphHash: f[1], FlowName: f[2], Namespace: f[3], Retention: f[4], Priority: f[5],
	}, err
}

// DecodeNames reads the id of the run and its trace context, which are all that a worker needs of a record.
func DecodeNames(stored string) (runID, traceContext string, err error) {
	f, err := decode(stored, "record")
	return f[0], f[2], err
}

// Decode reads the stored form of a record. The memo is nil where there is none.
func Decode(stored string) (Record, error) {
	f, err := decode(stored, "record")
	r := Record{
		RunID: f[0], InputHash: unpackHash(f[1]), TraceContext: f[2], FairKey: f[3], Creator: f[4], Parent: f[6],
		FailFast: f[7] != "",
	}
	if memo := f[5]; memo != "" {
		r.Memo = []byte(memo)
	}
	return r, err
}

// texts are decoded texts; those that are left out are empty.
type texts [maxArray]string

func appendTexts(to []byte, fields ...string) []byte {
	for len(fields) > 0 && fields[len(fields)-1] == "" {
		fields = fields[:len(fields)-1]
	}
	size := 2
	for _, f := range fields {
		size += len(f) + 2
	}
	b := append(slices.Grow(to, size), Version, 0x90|byte(len(fields))) // both encodings have fewer than 16 fields
	for _, f := range fields {
		b = append(appendLength(b, len(f)), f...)
	}
	return b
}

// The first bytes of MessagePack texts.
const (
	shortText    = 0xa0 // with the length in the lowest 5 bits
	maxShortText = 31
	text8        = 0xd9
	text16       = 0xda
	text32       = 0xdb
	array        = 0x90 // with the length in the lowest 4 bits
	maxArray     = 15
)

func appendLength(b []byte, n int) []byte {
	switch {
	case n <= maxShortText:
		return append(b, shortText|byte(n))
	case n <= 0xff:
		return append(b, text8, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, text16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, text32), uint32(n))
}

var errCut = errors.New("is cut off")

func decode(stored, what string) (texts, error) {
	if stored == "" {
		return texts{}, fmt.Errorf("the %s of the run %w", what, errCut)
	}
	if stored[0] != Version {
		return texts{}, fmt.Errorf("the %s of the run has version %d, this program reads version %d", what, stored[0],
			Version)
	}
	fields, err := decodeTexts(stored[1:])
	if err != nil {
		return texts{}, fmt.Errorf("the %s of the run %w", what, err)
	}
	return fields, nil
}

func decodeTexts(b string) (fields texts, err error) {
	if b == "" {
		return fields, errCut
	}
	if b[0] < array || b[0] > array+maxArray {
		return fields, errors.New("is no array")
	}
	count := int(b[0] - array)
	b = b[1:]
	for i := range count {
		n, rest, err := length(b)
		if err != nil {
			return fields, err
		}
		if n < 0 || n > len(rest) {
			return fields, errCut
		}
		fields[i], b = rest[:n], rest[n:]
	}
	if b != "" {
		return fields, fmt.Errorf("has %d bytes too many", len(b))
	}
	return fields, nil
}

// length reads the length of a text, and returns the bytes that follow it.
func length(b string) (n int, rest string, err error) {
	if b == "" {
		return 0, "", errCut
	}
	bytes := 0
	switch kind := b[0]; {
	case kind >= shortText && kind <= shortText+maxShortText:
		return int(kind - shortText), b[1:], nil
	case kind >= text8 && kind <= text32:
		bytes = 1 << (kind - text8)
	default:
		return 0, "", errors.New("has a field that is no text")
	}
	if len(b) <= bytes {
		return 0, "", errCut
	}
	for _, digit := range []byte(b[1 : 1+bytes]) {
		n = n<<8 | int(digit)
	}
	return n, b[1+bytes:], nil
}
