package resp

import "math"

// MapOfLists marks a map that RESP2 and scripts see as a list of [key, value] pairs rather than flat.
const MapOfLists = 1

// Kind is the kind of a Reply.
type Kind uint8

// The kinds of replies. Map, Set, Pairs and Double exist as such only for RESP3 clients; others see the flat array or
// text that a server sends them.
const (
	KindNil      Kind = iota // no value
	KindNilArray             // no array; as KindNil for RESP3 clients
	KindInt                  // Int
	KindBulk                 // Str, any bytes
	KindStatus               // Str, such as OK
	KindError                // Str, beginning with the error code
	KindDouble               // Float()
	KindBool                 // Int, 0 or 1
	KindArray                // Elems
	KindMap                  // Elems: key, value, key, value …
	KindSet                  // Elems
	KindPairs                // Elems: member, score, member, score …
	KindPush                 // Elems; sent out of band to RESP3 clients
	KindVerbatim             // Str, plain text
)

// Reply is the answer to one command. The zero value is the nil reply.
type Reply struct {
	Kind  Kind
	Int   int64
	Str   string
	Elems []Reply
}

// Err returns the reply as an error when it is one, and nil otherwise. The error is a *ReplyError.
func (r Reply) Err() error {
	if r.Kind == KindError {
		return &ReplyError{Text: r.Str}
	}
	return nil
}

// Float returns the value of a KindDouble reply.
func (r Reply) Float() float64 { return math.Float64frombits(uint64(r.Int)) }

// ReplyError is an error reply of a command or function, for example "WRONGTYPE …".
type ReplyError struct {
	// Text is the reply as sent, beginning with its code.
	Text string
}

// Error returns the text of the reply.
func (e *ReplyError) Error() string { return e.Text }

// Replies that are always the same.
var (
	OK     = Reply{Kind: KindStatus, Str: "OK"}
	Queued = Reply{Kind: KindStatus, Str: "QUEUED"}
	Nil    = Reply{}
	Zero   = Reply{Kind: KindInt}
	One    = Reply{Kind: KindInt, Int: 1}
)

// Int returns an integer.
func Int(n int) Reply { return Reply{Kind: KindInt, Int: int64(n)} }

// Int64 returns an integer.
func Int64(n int64) Reply { return Reply{Kind: KindInt, Int: n} }

// Bulk returns a string of any bytes.
func Bulk(s string) Reply { return Reply{Kind: KindBulk, Str: s} }

// Status returns a status, such as OK.
func Status(s string) Reply { return Reply{Kind: KindStatus, Str: s} }

// Error returns an error reply. text begins with the error code.
func Error(text string) Reply { return Reply{Kind: KindError, Str: text} }

// Array returns an array, which keeps e.
func Array(e []Reply) Reply { return Reply{Kind: KindArray, Elems: e} }

// Double returns a floating-point number.
func Double(v float64) Reply { return Reply{Kind: KindDouble, Int: int64(math.Float64bits(v))} }

// BoolInt returns 1 for true and 0 for false.
func BoolInt(b bool) Reply {
	if b {
		return One
	}
	return Zero
}

// Bulks returns strings of any bytes.
func Bulks(items []string) []Reply {
	out := make([]Reply, len(items))
	for i, s := range items {
		out[i] = Bulk(s)
	}
	return out
}

// Err returns an error reply with the general code, ERR.
func Err(text string) Reply { return Error("ERR " + text) }
