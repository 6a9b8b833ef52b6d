package engine

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ErrInvalidToken is the error of a token that is malformed, altered, made for another waitpoint or signed with a
// secret that is no longer valid. It does not reveal which, and the call has changed nothing.
var ErrInvalidToken = activity.SentinelError("flowfabric.invalid_token", "invalid token")

// The outward form of a token is the unpadded base64url of: version, partition (2 bytes), execution id, waitpoint id
// (16 bytes each), MAC (20 bytes), id of the signing secret (the rest).
const (
	tokenVersion = 1
	tokenHead    = 1 + 2 + 16 + 16
	tokenMAC     = 20
	maxTokenText = 256
)

var tokenText = base64.RawURLEncoding.Strict()

// ParseToken checks the form of a token's text. Its error is [ErrInvalidToken]. The signature is checked by the engine.
func ParseToken(text string) (activity.Token, error) {
	if _, err := OpenToken(activity.NewToken(text)); err != nil {
		return activity.Token{}, err
	}
	return activity.NewToken(text), nil
}

// TokenParts are the contents of a token.
type TokenParts struct {
	Partition keyspace.Partition
	Execution enginecore.ExecutionID
	Waitpoint enginecore.WaitpointID
	Signature string // <id of the secret>:<MAC in hex>
}

// SealToken encodes the engine's signature of a waitpoint ("key id:MAC in hex") as the token that users pass on. It
// fails if an id or the signature does not have the expected form.
func SealToken(
	execution enginecore.ExecutionID, waitpoint enginecore.WaitpointID, signature string,
) (activity.Token, error) {
	unsealable := func(what string) (activity.Token, error) {
		return activity.Token{}, fmt.Errorf("waitpoint %s of execution %s: its %s has no outward form", waitpoint,
			execution, what)
	}
	partition, err := keyspace.PartitionOf(execution)
	if err != nil {
		return activity.Token{}, err
	}
	of, err := uuid.Parse(execution.UUID())
	if err != nil {
		return unsealable("execution id")
	}
	at, err := uuid.Parse(string(waitpoint))
	if err != nil {
		return unsealable("waitpoint id")
	}
	kid, digest, found := strings.Cut(signature, ":")
	mac, err := hex.DecodeString(digest)
	if !found || err != nil || len(mac) != tokenMAC {
		return unsealable("token")
	}
	data := make([]byte, 0, tokenHead+tokenMAC+len(kid))
	data = append(data, tokenVersion)
	data = binary.BigEndian.AppendUint16(data, partition.Index)
	data = append(data, of[:]...)
	data = append(data, at[:]...)
	data = append(data, mac...)
	data = append(data, kid...)
	return activity.NewToken(tokenText.EncodeToString(data)), nil
}

// OpenToken decodes the output of [SealToken]. Its error is [ErrInvalidToken]. Each token has exactly one text, so a
// changed text is another token or none.
func OpenToken(t activity.Token) (TokenParts, error) {
	text := t.Reveal()
	if len(text) > maxTokenText || strings.ContainsAny(text, "\r\n") {
		return TokenParts{}, ErrInvalidToken
	}
	data, err := tokenText.DecodeString(text)
	if err != nil || len(data) <= tokenHead+tokenMAC || data[0] != tokenVersion {
		return TokenParts{}, ErrInvalidToken
	}
	kid := string(data[tokenHead+tokenMAC:])
	if strings.Contains(kid, ":") { // a signature is split at its first colon
		return TokenParts{}, ErrInvalidToken
	}
	partition := keyspace.Partition{Family: keyspace.FlowFamily, Index: binary.BigEndian.Uint16(data[1:3])}
	of, at := uuid.UUID(data[3:19]), uuid.UUID(data[19:35])
	return TokenParts{
		Partition: partition,
		Execution: enginecore.ExecutionID(partition.Tag() + ":" + of.String()),
		Waitpoint: enginecore.WaitpointID(at.String()),
		Signature: kid + ":" + hex.EncodeToString(data[tokenHead:tokenHead+tokenMAC]),
	}, nil
}
