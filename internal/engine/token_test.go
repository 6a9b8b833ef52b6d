package engine

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	sealedExecution = enginecore.ExecutionID("{fp:513}:550e8400-e29b-41d4-a716-446655440000")
	sealedWaitpoint = enginecore.WaitpointID("00112233-4455-6677-8899-aabbccddeeff")
	sealedSignature = "k1:2aea35fb9242b84b7dd3a233358aa05161781bf6"
)

func TestSealTokenFormIsStable(t *testing.T) {
	t.Parallel()
	sealed, err := SealToken(sealedExecution, sealedWaitpoint, sealedSignature)
	require.NoError(t, err)
	// Kept in mails and other systems: the form must stay.
	require.Equal(t, "AQIBVQ6EAOKbQdSnFkRmVUQAAAARIjNEVWZ3iJmqu8zd7v8q6jX7kkK4S33TojM1iqBRYXgb9msx", sealed.Reveal())
	parts, err := OpenToken(sealed)
	require.NoError(t, err)
	require.Equal(t, TokenParts{
		Partition: keyspace.Partition{Family: keyspace.FlowFamily, Index: 513}, Execution: sealedExecution,
		Waitpoint: sealedWaitpoint, Signature: sealedSignature,
	}, parts)
	parsed, err := ParseToken(sealed.Reveal())
	require.NoError(t, err)
	require.Equal(t, sealed.Reveal(), parsed.Reveal())
}

func TestSealTokenRefusesBadSignature(t *testing.T) {
	t.Parallel()
	for _, signature := range []string{"", "k1", "k1:", "k1:zz", "k1:2aea"} {
		_, err := SealToken(sealedExecution, sealedWaitpoint, signature)
		require.ErrorContains(t, err, "its token has no outward form")
		if signature != "" {
			require.NotContains(t, err.Error(), signature)
		}
	}
	_, err := SealToken(sealedExecution, "x", sealedSignature)
	require.Error(t, err)
	_, err = SealToken("x", sealedWaitpoint, sealedSignature)
	require.Error(t, err)
}

// Each token has one text only: any change of the text makes another token, or none.
func TestTokenHasOneText(t *testing.T) {
	t.Parallel()
	sealed, err := SealToken(sealedExecution, sealedWaitpoint, sealedSignature)
	require.NoError(t, err)
	text := sealed.Reveal()
	original, err := OpenToken(sealed)
	require.NoError(t, err)
	for i := range len(text) {
		for _, c := range []byte("Aa0-_=+/ \n.\x00") {
			changed := text[:i] + string(c) + text[i+1:]
			if changed == text {
				continue
			}
			if parts, err := OpenToken(activity.NewToken(changed)); err == nil {
				require.NotEqual(t, original, parts, "%q opens like the original", changed)
			}
		}
	}
	for _, bad := range []string{
		"", "x", text[:40], text + "=", text + "\n", strings.Repeat("A", 300), base64.RawURLEncoding.EncodeToString(make([]byte, 60)),
		"{fp:1}:x", "k1:2aea35fb9242b84b7dd3a233358aa05161781bf6",
	} {
		_, err := ParseToken(bad)
		require.Equal(t, ErrInvalidToken, err)
	}
}

func FuzzOpenToken(f *testing.F) {
	f.Add("AQIBVQ6EAOKbQdSnFkRmVUQAAAARIjNEVWZ3iJmqu8zd7v8q6jX7kkK4S33TojM1iqBRYXgb9msx")
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := OpenToken(activity.NewToken(text))
		if err != nil {
			return
		}
		again, err := SealToken(parts.Execution, parts.Waitpoint, parts.Signature)
		if err != nil || again.Reveal() != text {
			t.Errorf("%q is sealed as %q, %v", text, again.Reveal(), err)
		}
	})
}
