package embedded

import "github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"

type (
	// Reply is the answer to one command. The zero value is the nil reply. Its fields are Kind, which is the type of
	// the reply and determines which of the other fields count, Int (an int64), Str (a string) and Elems (a slice of
	// Reply). Its method Err returns an error reply as a *ReplyError, and Float the value of a KindDouble reply.
	Reply = resp.Reply
	// ReplyKind is the kind of a Reply.
	ReplyKind = resp.Kind
	// ReplyError is an error reply of a command or function, for example "WRONGTYPE …". Its field Text is the reply as
	// sent, beginning with its code.
	ReplyError = resp.ReplyError
)

// The kinds of replies. Map, Set, Pairs and Double exist as such only for RESP3 clients; others see the flat array or
// text that a server sends them.
const (
	KindNil      = resp.KindNil      // no value
	KindNilArray = resp.KindNilArray // no array; as KindNil for RESP3 clients
	KindInt      = resp.KindInt      // Int
	KindBulk     = resp.KindBulk     // Str, any bytes
	KindStatus   = resp.KindStatus   // Str, such as OK
	KindError    = resp.KindError    // Str, beginning with the error code
	KindDouble   = resp.KindDouble   // Float()
	KindBool     = resp.KindBool     // Int, 0 or 1
	KindArray    = resp.KindArray    // Elems
	KindMap      = resp.KindMap      // Elems: key, value, key, value …
	KindSet      = resp.KindSet      // Elems
	KindPairs    = resp.KindPairs    // Elems: member, score, member, score …
	KindPush     = resp.KindPush     // Elems; sent out of band to RESP3 clients
	KindVerbatim = resp.KindVerbatim // Str, plain text
)
