package screen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A picture that is higher than the terminal is cut.
func TestScreenCutsPictureToTerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &Screen{to: &out, mark: strings.Clone, size: func() (int, int) { return 10, 4 }}
	require.NoError(t, s.Draw([]string{"one", "two", "three", "four", "a line that is too long"}))
	require.Equal(t, "\r\x1b[Jone\r\ntwo\r\n… 3 more…\r\n", out.String())
	out.Reset()
	require.NoError(t, s.Draw([]string{"\x1b[2Jx"}))
	require.Equal(t, "\x1b[3A\r\x1b[J\\x1b[2Jx\r\n", out.String())
}
