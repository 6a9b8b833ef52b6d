package errorwords_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/errorwords"
)

func TestWordsOfErrors(t *testing.T) {
	require.Equal(t, []string{"post", "https", "pay", "example", "502", "card", "declined"},
		errorwords.Of(`POST https://pay.example/8271904: 502: the card "declined" 0f3c99a1`))
	require.Empty(t, errorwords.Of("the 123456 "+strings.Repeat("x", 40)))
	require.Equal(t, []string{"überweisung", "abgelehnt"}, errorwords.Of("Überweisung abgelehnt!"))
}

func TestPhrases(t *testing.T) {
	text := "charge: the card was declined by the issuer"
	require.True(t, errorwords.Contains(text, "Card declined"), "common words do not count")
	require.True(t, errorwords.Contains(text, "issuer"))
	require.False(t, errorwords.Contains(text, "declined card"))
	require.False(t, errorwords.Contains(text, "the"))
}

func TestHashesDependOnTheKey(t *testing.T) {
	one, other := errorwords.Key("one"), errorwords.Key("other")
	require.Equal(t, one.Hash("card"), one.Hash("card"))
	require.NotEqual(t, one.Hash("card"), other.Hash("card"))
	require.Regexp(t, `^[\w-]{8}$`, one.Hash("card"))
	require.Equal(t, one.Hash("declined")+","+one.Hash("card"), one.HashAll("card card declined"))
	long := strings.Repeat("ab cd ef gh ij kl mn op qr st uv wx yz ", 2) + "aa bb cc dd ee ff"
	require.Len(t, strings.Split(one.HashAll(long), ","), errorwords.Most)
}
