package activity_test

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

func TestCheckText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "order 7, für Zoë 🙂": "", "a:b": "",
		"\xff": "it is not valid UTF-8", "ok\xc3": "it is not valid UTF-8",
		"a\nb": "it has the control character U+000A", "\x00": "it has the control character U+0000",
		"x\x7f": "it has the control character U+007F", "é\u009b31m": "it has the control character U+009B",
	} {
		got := ""
		if err := activityspec.CheckText(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
