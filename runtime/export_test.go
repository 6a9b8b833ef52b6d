package runtime

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/activity"
)

// EngineToken is the part of a token that the engine made, which must not show either.
func EngineToken(tb testing.TB, token activity.Token) string {
	tb.Helper()
	parts, err := openToken(token)
	if err != nil {
		tb.Fatal(err)
	}
	return parts.signature
}
