package conformance

import (
	"strings"
	"testing"
)

func TestTemplateFits(t *testing.T) {
	sc := &scope{now: 2000, clocks: []int64{1000000, 1700000000000}, tolerance: 100}
	for _, c := range []struct {
		template, got string
		want          bool
	}{
		{"", "", true},
		{"", "x", false},
		{"plain", "plain", true},
		{"plain", "plain ", false},
		{"a$${b}", "a${b}", true},
		{"a$${b}", "a$${b}", false},

		{"${t0+5}", "1000005", true},
		{"${t0+5}", "1000105", true},
		{"${t0+5}", "1000106", false},
		{"${t0+5}", "999905", true},
		{"${t0+5}", "999904", false},
		{"${t0+5}", "1000005.0", false},
		{"${t0+5}", "1e6", false},
		{"${t0+5}", "", false},
		{"${t0+5}", "x", false},
		{"${t9+5}", "5", false},
		{"${t1-2999999999998}", "-1299999999998", true},
		{"${t1-2999999999998}", "-1299999999798", false},
		{"${t0+0.5}", "1000000.5", true},
		{"${t0+0.5}", "1000003.50001", true},
		{"${t0+0.5}", "1000003", false},
		{"${t0+0.5}", "1000003.2", false},

		{"due ${t0+5}.", "due 1000000.", true},
		{"due ${t0+5}.", "due 1000000", false},
		{"${t0+0}-${t0+9}", "1000000-1000009", true},
		{"${t0+0}-${t0+9}", "1000000-2000009", false},

		{"${id:t0+3}", "1000003-0", true},
		{"${id:t0+3}", "1000003-7", true},
		{"${id:t0+3}", "1000003", false},
		{"${id:t0+3}", "1000303-0", false},

		{"0.3333333333333333", "0.33333333333333331", true},
		{"0.5", "0.50", true},
		{"1.0", "1", false},
		{"1e+14", "100000000000000", false},
		{"1e+18", "1000000000000000000", true},
		{"1000000000000000000", "1000000000000000001", true}, // one number in 53 bits
		{"nan", "-nan", true},
		{"1", "01", false},

		{`{"a":1,"b":[]}`, `{ "b":[], "a":1 }`, true},
		{`{"a":1}`, `{"a":1} x`, false},
		{`[1,2]`, `[2,1]`, false},
		{`"a"`, ` "a"`, false},
	} {
		if got := sc.fits(c.template, c.got); got != c.want {
			t.Errorf("%q fits %q: %v", c.got, c.template, got)
		}
	}
}

func TestTemplateRender(t *testing.T) {
	sc := &scope{now: 2000, clocks: []int64{1000000}, replies: []any{[]any{int64(1), "7.5", []any{"x"}, nil}}}
	for template, want := range map[string]string{
		"":                      "",
		"$${now}":               "${now}",
		"${now}":                "2000",
		"${now-1}|${now+10}":    "1999|2010",
		"${t0+9000000000000}":   "9000001000000",
		"${t0-0.25}":            "999999.75",
		"${r0.0}":               "1",
		"${r0.1}":               "7.5",
		"${r0.1+1}":             "8.5",
		"${r0.0-3}":             "-2",
		"${r0.2.0}":             "x",
		"<${r0.9}${r0.3}${r7}>": "<>",
	} {
		got, err := sc.render(template)
		if err != nil || got != want {
			t.Errorf("%q renders as %q (%v), want %q", template, got, err, want)
		}
	}
	for _, bad := range []string{"${", "${x}", "${t}", "${now+x}", "${token:k1}", "${t5+1}", "${id:r0.1}"} {
		if got, err := sc.render(bad); err == nil {
			t.Errorf("%q renders as %q", bad, got)
		}
	}
}

func TestErrorClasses(t *testing.T) {
	for text, want := range map[string]string{
		"WRONGTYPE Operation against a key":                                     "WRONGTYPE",
		"ERR user_function:1: attempt to index script: f, on @user_function:1.": "SCRIPT",
		"WRONGTYPE Operation against a key script: f, on @user_function:1.":     "SCRIPT",
		"ERR Function not found":                                                "ERR",
	} {
		if got := newErrorReply(text).Class; got != want {
			t.Errorf("%q is of class %s, want %s", text, got, want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":       "",
		"other format":  `{"format":"x","version":1}`,
		"other version": `{"format":"oracle-trace","version":2}`,
		"gap":           tinyHead + `{"i":1,"fn":"f","reply":1}`,
		"no call":       tinyHead + `{"i":0,"reply":1}`,
		"two calls":     tinyHead + `{"i":0,"fn":"f","cmd":["PING"],"reply":1}`,
		"odd reply":     tinyHead + `{"i":0,"fn":"f","reply":{"a":1}}`,
		"fraction":      tinyHead + `{"i":0,"fn":"f","reply":1.5}`,
	} {
		if _, err := Load(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
